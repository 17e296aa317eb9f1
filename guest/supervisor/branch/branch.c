#include "guest/supervisor/branch/branch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "guest/supervisor/process/processes.h"
#include "guest/supervisor/process/spawn.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

Branch *branches_find(const Branches *set, uint64_t number)
{
    Branch *branch;

    list_foreach (branch, (List *)&set->all, Branch, link)
        if (branch->number == number)
            return branch;
    return NULL;
}

void branches_changed(Branches *set)
{
    set->events->changed(set);
}

bool branches_are_busy(const Branches *set)
{
    return set->events->is_busy(set);
}

/* ---- alarms ---- */

static void on_alarm(LoopFile *file, uint32_t events)
{
    Alarm *alarm = container_of(file, Alarm, file);
    uint64_t expired;

    if (read(file->fd, &expired, sizeof(expired)) != (ssize_t)sizeof(expired))
        return;
    alarm->set = false;
    alarm->on_due(alarm);
}

int alarm_open(Alarm *alarm, Loop *loop, void (*on_due)(Alarm *))
{
    _cleanup_(closep) int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int r;

    if (fd < 0)
        return -errno;
    r = loop_file_add(loop, &alarm->file, fd, EPOLLIN, on_alarm);
    if (r < 0)
        return r;
    alarm->on_due = on_due;
    take_fd(&fd);
    return 0;
}

void alarm_close(Alarm *alarm)
{
    if (!alarm->file.loop)
        return;
    loop_file_remove(&alarm->file);
    close(alarm->file.fd);
}

void alarm_set(Alarm *alarm, uint64_t due)
{
    const struct itimerspec when = {.it_value = clock_timespec(due)};

    alarm->set = timerfd_settime(alarm->file.fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

/* ---- checkpoints that are taken by themselves: none of this costs a system call for each call ---- */

/* The pause between calls after which a state is kept. */
#define QUIET (2 * NSEC_PER_MSEC)

/* The delay while something else is to be done with the branch. What is done with others holds up none. */
#define LATER (50 * NSEC_PER_MSEC)

/* Back-to-back calls: checkpoints may take 1/BUSY_RATIO of the time, 1/BUSY_RATIO_SHORT where a call is
 * shorter than a checkpoint, as many of them would wait for one. */
#define BUSY_RATIO       40u
#define BUSY_RATIO_SHORT 100u

/* The bound on what a fatal call takes with it, whichever is more, whatever a checkpoint costs. */
#define LOST_CALLS 5u
#define LOST_TIME  (50 * NSEC_PER_MSEC)

/* The first checkpoint is taken to cost this. */
#define COST_UNKNOWN NSEC_PER_MSEC

#define PAUSE_MINIMUM NSEC_PER_SEC
#define PAUSE_MAXIMUM (60 * NSEC_PER_SEC)

CheckpointMode policy_mode(const Branch *branch)
{
    return branch_is_foreign(branch) ? CHECKPOINT_OFF : branch->set->mode;
}

/* Returns whether a checkpoint would be worth while and could be had. */
static bool may_take(const Branch *branch, uint64_t now)
{
    return policy_mode(branch) != CHECKPOINT_OFF && branch->state == BRANCH_IDLE &&
           !branch_is_exact(branch) && now >= branch->policy.retry;
}

static void policy_on_failure(Branch *branch, const char *why)
{
    Policy *policy = &branch->policy;

    reason_set(policy->trouble, "no checkpoint could be taken: %s", why);
    log_warn("no checkpoint", "branch=%" PRIu64 " reason=%s", branch->number, why);
    policy->pause = MIN(MAX(policy->pause * 2, PAUSE_MINIMUM), PAUSE_MAXIMUM);
    policy->retry = clock_now() + policy->pause;
}

static void take_one(Branch *branch)
{
    Reason why;

    if (branch_freeze(branch, CHECKPOINT_AUTOMATIC, "", why) < 0)
        policy_on_failure(branch, why);
}

void policy_protect(Branch *branch)
{
    if (may_take(branch, clock_now()))
        take_one(branch);
}

static void on_quiet(Alarm *alarm)
{
    Branch *branch = container_of(alarm, Branch, policy.quiet);
    uint64_t now = clock_now(), quiet = branch->policy.last_end + QUIET;

    if (!may_take(branch, now))
        return;
    if (now < quiet)
        alarm_set(alarm, quiet);
    else if (branch->set->events->is_wanted(branch))
        alarm_set(alarm, now + LATER);
    else
        take_one(branch);
}

static int policy_init(Branch *branch)
{
    return alarm_open(&branch->policy.quiet, branch->set->loop, on_quiet);
}

static void policy_deinit(Branch *branch)
{
    alarm_close(&branch->policy.quiet);
}

void policy_on_quiet(Branch *branch, uint64_t now)
{
    Policy *policy = &branch->policy;

    policy->last_end = now;
    if (policy_mode(branch) == CHECKPOINT_AUTO && !policy->quiet.set)
        alarm_set(&policy->quiet, now + QUIET);
}

static uint64_t last_cost(const Policy *policy)
{
    return policy->cost > 0 ? policy->cost : COST_UNKNOWN;
}

/* A checkpoint took `cost` nanoseconds. It counts as at most twice the last: a busy machine makes one seem
 * dear, and the next would come too late. */
static void policy_on_cost(Branch *branch, uint64_t cost)
{
    branch->policy.cost = MIN(cost, 2 * last_cost(&branch->policy));
}

static bool is_worth_its_cost(const Branch *branch)
{
    const Policy *policy = &branch->policy;
    uint64_t cost = last_cost(policy);
    bool are_short = policy->busy < branch->calls * cost;

    return policy->busy > (are_short ? BUSY_RATIO_SHORT : BUSY_RATIO) * cost;
}

static bool is_bound_reached(const Branch *branch)
{
    return branch->calls > LOST_CALLS && branch->policy.busy > LOST_TIME;
}

static void policy_on_run(Branch *branch, uint64_t now)
{
    /* Without a base that has a call, one that is lost takes everything with it, however short the time. */
    bool is_bare = !branch->base || branch->base->execution_count == 0;
    bool was_quiet = now >= branch->policy.last_end + QUIET; /* and the alarm found something else to do */
    bool due = policy_mode(branch) == CHECKPOINT_ALWAYS || is_bare || branch->policy.exposed || was_quiet ||
               is_bound_reached(branch) || is_worth_its_cost(branch);

    if (due && may_take(branch, now))
        take_one(branch);
}

static void policy_on_taken(Branch *branch)
{
    branch->policy.busy = 0;
    branch->policy.exposed = false;
}

void policy_on_gone(Branch *branch)
{
    branch->policy.exposed = true;
}

static void policy_on_success(Branch *branch)
{
    branch->policy.retry = branch->policy.pause = 0;
    branch->policy.trouble[0] = '\0';
}

void policy_forget(Branch *branch)
{
    policy_on_success(branch);
    policy_on_taken(branch);
}

void policy_why_none(const Branch *branch, Reason ret)
{
    bool off = policy_mode(branch) == CHECKPOINT_OFF && !branch->policy.trouble[0];

    if (branch_is_foreign(branch))
        reason_set(ret, "there are no checkpoints of %s", branch->place.language);
    else
        reason_set(ret, "%s", off ? "checkpoints are off" : branch->policy.trouble);
}

/* ---- checkpoints ---- */

/* Memory is read as fast as the disk gives it. */
#define THAW_LIMIT (30 * NSEC_PER_SEC)

/* As limpet_saving calls the list of variables, without which they are none. */
#define VARIABLES_NAME "variables.json"

/* The last call whose effects are in RAM; 0: none. */
static uint64_t branch_state_count(const Branch *branch)
{
    if (branch->calls > 0)
        return branch->state_count;
    return branch->base ? branch->base->execution_count : 0;
}

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
    return branch_move(branch, BRANCH_ON_FREEZE);
}

/* An earlier attempt, whose controller was lost, may have left a list of variables as they were then. */
static int make_place(const char *path)
{
    char *index = NULL;
    int r;

    if (mkdir(path, 0700) == 0)
        return 0;
    if (errno != EEXIST || asprintf(&index, "%s/" VARIABLES_NAME, path) < 0)
        return -EIO;
    r = unlink(index) < 0 && errno != ENOENT ? -errno : 0;
    free(index);
    return r;
}

bool branch_make_place(const Branch *branch, const char *path)
{
    const CommandLine *command_line = branch->set->command_line;
    int r;

    r = command_line->same_user ? 0 : act_as(command_line->uid);
    if (r == 0)
        r = make_place(path);
    if (!command_line->same_user)
        act_as_self();
    return r == 0;
}

/* Has a process become a checkpoint. */
static int thaw(Branch *branch, CheckpointKind kind, const KeptMemory *memory, Checkpoint **ret)
{
    Checkpoint *checkpoint;
    int end = -1, r = checkpoint_new(&checkpoint, &branch->set->checkpoints, kind, &end);

    if (r < 0)
        return r;
    checkpoint->branch = branch->number;

    pid_t pid = interpreter_become(branch->set->command_line, memory, end);

    close(end);
    r = pid < 0 ? pid : checkpoint_becomes(checkpoint, pid, THAW_LIMIT);
    if (r < 0) {
        checkpoint_drop(checkpoint, strerror(-r));
        return r;
    }
    *ret = checkpoint;
    return 0;
}

int branch_thaw(Branch *branch, const KeptMemory *memory, uint64_t execution_count, Checkpoint **ret)
{
    int r = thaw(branch, CHECKPOINT_AUTOMATIC, memory, ret);

    if (r == 0)
        (*ret)->execution_count = (*ret)->calls = execution_count;
    return r;
}

int branch_thaw_pristine(Branch *branch, int shared)
{
    Checkpoint *pristine;

    branch->set->environment_changed = true;
    return thaw(branch, CHECKPOINT_PRISTINE, &(KeptMemory){NULL, shared, -1}, &pristine);
}

static int on_checkpointed(Branch *branch, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint;
    MsgCheckpointed said;
    char why[LIMIT_NOTE + 1] = "";
    int r = body_decode(&said, MsgCheckpointed, &message->body, problem);

    if (r < 0 || !branch_is_ready(branch))
        return r; /* too late: what became of the checkpoint is known */
    if (branch->state != BRANCH_CHECKPOINTING && branch->state != BRANCH_QUEUED)
        return problem_set(problem, ERR_BAD_REQUEST, "`checkpointed` that answers nothing");
    branch_move(branch, BRANCH_ON_CHECKPOINTED);
    checkpoint = take(branch->taking);
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
    recovery_on_gone(branch, checkpoint, why);
}

/* ---- the branch ---- */

#define COMPLAINT_MAX 2048u

static int on_message(Interpreter *interpreter, const Message *message, Problem *problem);

static Branch *branch_from(Interpreter *interpreter)
{
    return container_of(interpreter, Branch, interpreter);
}

static void on_output(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n)
{
    Branch *branch = branch_from(interpreter);

    if (branch_was_ready(branch))
        branch->set->events->output(branch, stream, bytes, n);
    else if (stream == STDERR_FILENO)
        buf_append(&branch->complaint, bytes, MIN(n, COMPLAINT_MAX - branch->complaint.size));
}

/* Children of an earlier call have written. */
static void on_late(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n)
{
    branch_wrote(branch_from(interpreter), stream, bytes, n);
}

static void on_hangup(Interpreter *interpreter)
{
    Branch *branch = branch_from(interpreter);

    if (branch->state == BRANCH_COPYING ||
        (branch_is_ready(branch) && branch_move(branch, BRANCH_ON_HANG_UP) < 0))
        branch_lose(branch, NULL);
}

static void on_fault(Interpreter *interpreter, const char *reason)
{
    branch_lose(branch_from(interpreter), reason);
}

static void init_between(Branch *branch)
{
    static const Spill nowhere = SPILL_NONE;

    for (unsigned i = 0; i < STREAMS; i++)
        output_init(&branch->between[i], LIMIT_BETWEEN, &nowhere, "");
}

Branch *branch_new(Branches *set, uint64_t number)
{
    Branch *branch = calloc(1, sizeof(*branch));

    if (!branch)
        return NULL;
    branch->set = set;
    branch->number = number;
    branch->epoch = 1;
    init_between(branch);
    interpreter_init(&branch->interpreter, set->loop);
    branch->interpreter.on_message = on_message;
    branch->interpreter.on_output = on_output;
    branch->interpreter.on_late = on_late;
    branch->interpreter.on_hangup = on_hangup;
    branch->interpreter.on_fault = on_fault;
    list_append(&set->all, &branch->link);
    set->count++;
    return policy_init(branch) == 0 ? branch : branch_free(branch);
}

Branch *branch_new_from(const Branch *from, uint64_t number)
{
    Branch *branch = branch_new(from->set, number);

    if (!branch)
        return NULL;
    branch->execution_count = from->execution_count;
    if (branch_set_place(branch, (Text){0}, text_of(from->place.cwd)) < 0)
        return branch_free(branch);
    return branch;
}

Branch *branch_free(Branch *branch)
{
    if (!branch)
        return NULL;
    loop_timer_cancel(&branch->limit);
    policy_deinit(branch);
    interpreter_deinit(&branch->interpreter);
    buf_deinit(&branch->complaint);
    state_change_deinit(&branch->unreported);
    notes_deinit(&branch->restored);
    outputs_deinit(branch->between);
    free(branch->place.cwd);
    list_remove(&branch->link);
    branch->set->count--;
    free(branch);
    return NULL;
}

void branch_end(Branch *branch)
{
    branch_end_processes(branch);
    branch_forget_line(branch);
    branch->set->events->ended(branch);
    branch_free(branch);
}

int branch_set_place(Branch *branch, Text language, Text cwd)
{
    if (language.size > 0)
        memcpy(branch->place.language, language.data, language.size);
    if (!cwd.data)
        return 0;
    branch->place.cwd = text_dup(cwd);
    return branch->place.cwd ? 0 : -ENOMEM;
}

static bool has_place(const Branch *branch)
{
    return branch->place.language[0] || branch->place.cwd;
}

bool branch_is_foreign(const Branch *branch)
{
    return branch->place.language[0];
}

bool branch_is_exact(const Branch *branch)
{
    return branch->base && branch->calls == 0;
}

void branch_protection(const Branch *branch, Protection *ret)
{
    const Checkpoint *checkpoint = branch->base;

    while (checkpoint && checkpoint_is_pending(checkpoint))
        checkpoint = checkpoint->parent;
    *ret = (Protection){.exists = checkpoint};
    if (checkpoint) {
        ret->execution_count = checkpoint->execution_count;
        memcpy(ret->reason, branch->policy.trouble, sizeof(ret->reason));
        if (!ret->reason[0] && processes_end_together())
            reason_set(ret->reason, "memory that is used up ends the container with its checkpoints, as "
                                    "memory.oom.group is 1 here");
        return;
    }
    policy_why_none(branch, ret->reason);
    if (!ret->reason[0])
        reason_set(ret->reason, "%s", state_change_no_checkpoint);
}

/* ---- calls ---- */

void branch_occupy(Branch *branch, uint64_t execution_count, uint64_t now)
{
    policy_on_run(branch, now);
    branch_move(branch, BRANCH_ON_OCCUPY);
    branch->losses = 0;
    branch->calls++;
    branch->state_count = execution_count;
}

void branch_call_ended(Branch *branch, uint64_t busy, uint64_t now)
{
    branch_vacate(branch);
    branch->policy.busy += busy;
    policy_on_quiet(branch, now);
}

void branch_wrote(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    output_write(&branch->between[stream - 1], bytes, n);
}

void branch_take_between(Branch *branch, Output ret[STREAMS])
{
    memcpy(ret, branch->between, sizeof(branch->between));
    init_between(branch);
}

void branch_forget_between(Branch *branch)
{
    outputs_deinit(branch->between);
    init_between(branch);
}

void branch_vacate(Branch *branch)
{
    if (branch->state == BRANCH_RUNNING || branch->state == BRANCH_QUEUED)
        branch_move(branch, BRANCH_ON_VACATE);
}

void branch_take_place(Branch *branch, Branch *of)
{
    Branches *set = branch->set;
    uint64_t former = branch->number;
    Checkpoint *checkpoint;

    branch_end_processes(of);
    branch->epoch = of->epoch + 1;
    branch->execution_count = MAX(branch->execution_count, of->execution_count);
    if (of->is_restored) { /* no record has told it yet */
        notes_deinit(&branch->restored);
        branch->restored = of->restored;
        of->restored = NOTES_NULL;
        branch->is_restored = true;
    }
    list_remove(&branch->link);
    list_append(of->link.next, &branch->link); /* right behind it */
    branch->number = of->number;
    branch_end(of); /* takes the automatic checkpoints of that number with it */
    list_foreach (checkpoint, &set->checkpoints.all, Checkpoint, link)
        if (checkpoint->kind == CHECKPOINT_AUTOMATIC && checkpoint->branch == former)
            checkpoint->branch = branch->number;
}

/* ---- starting ---- */

int branch_start(Branch *branch)
{
    return branch_begin_anew(branch) ? 0 : branch_spawn(branch);
}

int branch_spawn(Branch *branch)
{
    const Branches *set = branch->set;
    int r = branch_move(branch, BRANCH_ON_START);

    buf_clear(&branch->complaint);
    branch->news = has_place(branch) ? NEWS_PLACE : 0;
    if (r == 0)
        r = interpreter_start(&branch->interpreter, set->command_line, &set->environment, set->memory);
    if (r == 0)
        return 0;
    branch_move(branch, BRANCH_ON_END);
    branch_start_failed(branch, strerror(-r));
    return r;
}

/* Only the next call tries again, so that a broken image does not spin. */
void branch_start_failed(Branch *branch, const char *why)
{
    log_error("interpreter not started", "branch=%" PRIu64 " reason=%s", branch->number, why);
    reason_set(branch->why, "%s", why);
    branch->set->events->start_failed(branch, why);
    branches_changed(branch->set);
}

int branch_copy(Branch *branch, Checkpoint *checkpoint)
{
    const Branches *set = branch->set;
    bool pristine = checkpoint->kind == CHECKPOINT_PRISTINE;
    CopyPurpose purpose = branch->recovery.purpose;
    const MsgRestore restore = {.branched = pristine || purpose == COPY_BRANCH || purpose == COPY_FORK,
                                .memory = branch->recovery.killed};
    int r = branch_move(branch, BRANCH_ON_COPY);

    buf_clear(&branch->complaint);
    branch->news = (pristine && set->environment_changed ? NEWS_ENVIRONMENT : 0) |
                   (set->proxied_late ? NEWS_PROXY : 0) | (pristine && has_place(branch) ? NEWS_PLACE : 0);
    branch->recovery.restore = ++checkpoint->restores;
    if (r == 0)
        r = interpreter_copy(&branch->interpreter, checkpoint->channel, checkpoint->restores, &restore);
    if (r < 0)
        branch_move(branch, BRANCH_ON_END);
    return r;
}

/* ---- messages of the interpreter ---- */

static int check_copy(const Branch *branch, Problem *problem)
{
    Checkpoints *checkpoints = &branch->set->checkpoints;
    pid_t sender = branch->interpreter.sender;

    if (!processes_is_child(sender) || checkpoints_find_pid(checkpoints, sender) ||
        checkpoints->is_taken(checkpoints, sender))
        return problem_set(problem, ERR_BAD_REQUEST, "process %d is no copy of a checkpoint", (int)sender);
    return 0;
}

static int decode_ready(const Message *message, MsgReady *ret, EncodedNotes *notes, Problem *problem)
{
    int r = body_decode(ret, MsgReady, &message->body, problem);

    if (r == 0)
        notes_add_all(notes, &ret->not_restored);
    return r;
}

static int on_ready(Branch *branch, const Message *message, Problem *problem)
{
    Interpreter *interpreter = &branch->interpreter;
    EncodedNotes notes _cleanup_(notes_deinit) = NOTES_NULL;
    bool copied = branch->state == BRANCH_COPYING;
    MsgReady ready;
    int r;

    recovery_note_processes(branch, &notes);
    r = decode_ready(message, &ready, &notes, problem);
    if (r == 0 && copied)
        r = check_copy(branch, problem);
    if (r < 0)
        return r;
    branch_move(branch, BRANCH_ON_READY);
    interpreter_ready(interpreter);
    log_info("interpreter ready", "branch=%" PRIu64 " pid=%d", branch->number, (int)interpreter->pid);
    if (copied)
        recovery_ready(branch, &notes, ready.memory);
    policy_on_quiet(branch, clock_now());
    branch->set->events->ready(branch, copied);
    branches_changed(branch->set);
    return 0;
}

static int unexpected(const Message *message, Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s", message_name(message->kind));
}

/* An interpreter that was not ready, and is given up or closed, has nothing to say any more. */
static int on_message(Interpreter *interpreter, const Message *message, Problem *problem)
{
    Branch *branch = branch_from(interpreter);

    if (branch->state == BRANCH_EMPTY || branch->state == BRANCH_RETRYING)
        return 0;
    if (branch_was_ready(branch) == (message->kind == MSG_READY))
        return unexpected(message, problem);
    switch (message->kind) {
    case MSG_READY:
        return on_ready(branch, message, problem);
    case MSG_CHECKPOINTED:
        return on_checkpointed(branch, message, problem);
    default:
        return branch->set->events->message(branch, message, problem);
    }
}
