/* Checkpoints of a branch: asking for one, and what follows when it is there, or gone. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/supervisor/branch/internal.h"
#include "guest/supervisor/process/child.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Memory is read as fast as the disk gives it. */
#define THAW_LIMIT (30 * NSEC_PER_SEC)

/* The checkpoint stands for the live state from now on. Should it fail, dropping it puts everything back. */
static void enter_tree(Branch *branch, Checkpoint *checkpoint)
{
    checkpoint->branch = branch->number;
    checkpoint->execution_count = branch_state_count(branch);
    checkpoint->parent = branch->base;
    checkpoint->calls = branch->calls;
    branch->base = branch->taking = checkpoint;
    branch->calls = 0;
    policy_on_taken(branch);
}

int branch_freeze(Branch *branch, CheckpointKind kind, const char *name, Reason why)
{
    Checkpoint *checkpoint;
    int end = -1, r;

    if (branch_is_foreign(branch)) {
        policy_why_none(branch, why);
        return -EOPNOTSUPP;
    }
    r = checkpoint_new(&checkpoint, &branch->set->checkpoints, kind, &end);
    if (r < 0) {
        reason_set(why, "%s", strerror(-r));
        return r;
    }
    branch->asked = clock_now();
    r = interpreter_ask_checkpoint(&branch->interpreter, end, kind == CHECKPOINT_AUTOMATIC);
    close(end);
    if (r < 0) {
        reason_set(why, "%s", r == -EBUSY ? "the interpreter is not listening" : strerror(-r));
        checkpoint_drop(checkpoint, why);
        return r;
    }
    strcpy(checkpoint->name, name);
    enter_tree(branch, checkpoint);
    return 0;
}

static _Noreturn void make_directory(const CommandLine *command_line, const char *path)
{
    int r = command_line->same_user ? 0 : child_drop_powers(command_line->uid, command_line->uid, 0);

    _exit(r == 0 && mkdir(path, 0700) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

bool branch_make_place(const Branch *branch, const char *path)
{
    const CommandLine *command_line = branch->set->command_line;
    pid_t pid = strcmp(command_line->directory, SESSION_PATH) == 0 ? fork() : -1;
    int status;

    if (pid == 0)
        make_directory(command_line, path);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

int branch_thaw(Branch *branch, const char *kept, uint64_t execution_count, Checkpoint **ret)
{
    Checkpoint *checkpoint;
    int end = -1, r = checkpoint_new(&checkpoint, &branch->set->checkpoints, CHECKPOINT_AUTOMATIC, &end);

    if (r < 0)
        return r;
    checkpoint->branch = branch->number;
    checkpoint->execution_count = execution_count;

    pid_t pid = interpreter_become(branch->set->command_line, kept, end);

    close(end);
    r = pid < 0 ? pid : checkpoint_becomes(checkpoint, pid, THAW_LIMIT);
    if (r < 0) {
        checkpoint_drop(checkpoint, strerror(-r));
        return r;
    }
    *ret = checkpoint;
    return 0;
}

int branch_on_checkpointed(Branch *branch, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = take(branch->taking);
    MsgCheckpointed said;
    char why[LIMIT_NOTE + 1] = "";
    int r = body_decode(&said, MsgCheckpointed, &message->body, problem);

    if (r < 0)
        return r;
    if (!interpreter_checkpointed(&branch->interpreter))
        return problem_set(problem, ERR_BAD_REQUEST, "`checkpointed` that answers nothing");
    branches_changed(branch->set);
    if (!said.error.data)
        policy_on_cost(branch, clock_now() - branch->asked);
    else
        memcpy(why, said.error.data, said.error.size);
    if (checkpoint && said.error.data)
        checkpoint_drop(checkpoint, why);
    else if (checkpoint)
        checkpoint_answered(checkpoint);
    return 0;
}

void branch_on_kept(Branch *branch, Checkpoint *checkpoint)
{
    Checkpoints *set = checkpoint->set;

    log_debug("checkpoint kept", "id=c%" PRIu64 " branch=%" PRIu64 " execution_count=%" PRIu64 " pid=%d",
              checkpoint->number, checkpoint->branch, checkpoint->execution_count, (int)checkpoint->pid);
    policy_on_success(branch);
    if (checkpoint->kind == CHECKPOINT_AUTOMATIC)
        checkpoints_drop_automatic(set, checkpoint->branch, checkpoint);
    checkpoints_make_room(set, checkpoint, checkpoint->kind == CHECKPOINT_BY_HAND);
}

/* Counts the branch's state from the checkpoint before the one that goes. */
static void lose_base(Branch *branch, const Checkpoint *checkpoint, const char *why)
{
    bool failed = checkpoint_is_pending(checkpoint) && checkpoint->branch == branch->number;

    branch->base = checkpoint->parent;
    if (branch->calls == 0)
        branch->state_count = checkpoint->execution_count;
    branch->calls += checkpoint->calls;
    policy_on_gone(branch);
    if (failed)
        policy_on_failure(branch, why ? why : "it was given up");
    else if (why)
        reason_set(branch->policy.trouble, "%s", why);
    else
        policy_on_quiet(branch, clock_now());
}

void branch_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why)
{
    if (branch->taking == checkpoint)
        branch->taking = NULL;
    if (branch->base == checkpoint)
        lose_base(branch, checkpoint, why);
    if (branch_is_recovering(branch))
        recovery_on_gone(branch, checkpoint, why);
}
