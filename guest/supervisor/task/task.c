/* Tasks begin, wait, and are over. Most of them have files of their own. */
#include "guest/supervisor/task/task.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "guest/channel.h"
#include "proto/base/clock.h"

/* ---- close, reset ---- */

static int task_close(Tasks *tasks, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, body.branch, problem);
    if (!branch)
        return r;
    if (branch->number == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "the session itself ends with `stop`");
    if (tasks_are_about(tasks, branch))
        task_cancel(tasks, "the branch was closed meanwhile");
    executor_end_closed(tasks->executor, branch);
    branch_end(branch);
    task_answer(tasks, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* The reset that waits for that branch; of NULL: an unused one. */
static Reset *find_reset(Tasks *tasks, const Branch *branch)
{
    for (size_t i = 0; i < ARRAY_SIZE(tasks->resets); i++)
        if (tasks->resets[i].branch == branch)
            return &tasks->resets[i];
    return NULL;
}

void tasks_on_started(Tasks *tasks, Branch *branch)
{
    Reset *reset = find_reset(tasks, branch);

    if (!reset)
        return;
    reset->branch = NULL;
    task_answer(tasks, reset->id, MsgEpoch, &(MsgEpoch){.epoch = branch->epoch});
}

/* Begins the branch anew. A copy of the pristine checkpoint in the making will do, as nothing has run in it.
 */
static void begin_anew(Tasks *tasks, Branch *branch)
{
    bool begins = branch_is_recovering(branch) && branch->recovery.purpose == COPY_ANEW;

    if (!begins)
        branch_end_processes(branch);
    executor_end_reset(tasks->executor, branch);
    if (begins)
        return;
    branch_forget_line(branch);
    branch_forget_between(branch);
    branch_start(branch);
}

static int task_reset(Tasks *tasks, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    Reset *reset;
    MsgReset body;
    int r = body_decode(&body, MsgReset, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, uint_or(body.branch, 0), problem);
    if (!branch)
        return r;
    /* A reset under way is done, as the state that it replaces is gone. */
    tasks_on_started(tasks, branch);
    if (tasks_are_about(tasks, branch))
        task_cancel(tasks, "the session was reset");
    reset = find_reset(tasks, NULL);
    if (!reset)
        return problem_set(problem, ERR_INTERNAL, "too many resets are in progress");
    *reset = (Reset){.branch = branch, .id = message->id};
    branch->epoch++;
    begin_anew(tasks, branch);
    return 0;
}

/* ---- context ---- */

#define PLACE_LIMIT (30 * NSEC_PER_SEC)

static void on_place_due(LoopTimer *timer)
{
    task_refuse(container_of(timer, Tasks, task.limit), ERR_INTERNAL,
                "the context did not get ready in time");
}

static void answer_context(Tasks *tasks)
{
    Task *task = &tasks->task;
    const Branch *branch = task->branch;

    if (branch->misplaced[0]) {
        task_refuse(tasks, ERR_BAD_REQUEST, "%s", branch->misplaced);
        return;
    }
    task->made = NULL;
    task_answer(tasks, task->id, MsgBranchMade,
                (&(MsgBranchMade){.execution_count = branch->execution_count, .epoch = branch->epoch}));
    task_done(tasks);
}

static void started(Tasks *tasks)
{
    tasks->task.epoch = tasks->task.branch->epoch;
    task_await(tasks, AWAITS_PLACE, answer_context);
}

static Branch *make(Tasks *tasks, const MsgContextOrder *asked)
{
    Branch *branch = branch_new(tasks->branches, asked->branch);

    return branch && branch_set_place(branch, asked->language, asked->cwd) < 0 ? branch_free(branch) : branch;
}

static int task_context(Tasks *tasks, const Message *message, Problem *problem)
{
    Task *task = &tasks->task;
    MsgContextOrder body;
    int r = body_decode(&body, MsgContextOrder, &message->body, problem);

    if (r == 0)
        r = task_check_new(tasks, body.branch, problem);
    if (r == 0)
        r = task_begin(tasks, message, NULL, problem);
    if (r < 0)
        return r;
    task->branch = task->made = make(tasks, &body);
    if (!task->made)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    r = loop_timer_set(tasks->branches->loop, &task->limit, clock_now() + PLACE_LIMIT, on_place_due);
    if (r < 0)
        task_refuse(tasks, ERR_INTERNAL, "%s", strerror(-r));
    else
        task_await(tasks, AWAITS_INTERPRETER, started);
    return 0;
}

/* ---- namespace ---- */

#define ANSWER_LIMIT (5 * NSEC_PER_SEC)

static void on_answer_due(LoopTimer *timer)
{
    task_refuse(container_of(timer, Tasks, task.limit), ERR_INTERNAL,
                "the interpreter did not list its variables in time; a thread of the code may keep it busy");
}

static int ask(Branch *branch, uint64_t id)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(&frame, MSG_NAMESPACE, id, MsgNothing, &(MsgNothing){0});

    return r < 0 ? r : interpreter_send(&branch->interpreter, &frame);
}

static void namespace_ask(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;
    int r;

    task->epoch = branch->epoch;
    r = ask(branch, ++branch->interpreter.listings.asked);
    if (r == 0)
        r = loop_timer_set(branch->set->loop, &task->limit, clock_now() + ANSWER_LIMIT, on_answer_due);
    if (r < 0)
        task_refuse(tasks, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
    else
        task_await(tasks, AWAITS_ANSWER, NULL);
}

static int task_namespace(Tasks *tasks, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, body.branch, problem);
    if (r == 0 && branch_is_foreign(branch))
        r = problem_set(problem, ERR_BAD_REQUEST, "the variables of a context of %s are not listed",
                        branch->place.language);
    if (r == 0)
        r = task_begin(tasks, message, branch, problem);
    if (r == 0)
        task_await(tasks, AWAITS_INTERPRETER, namespace_ask);
    return r;
}

/* An answer that comes too late is nobody's. */
int tasks_on_namespace(Tasks *tasks, Branch *branch, const Message *message, Problem *problem)
{
    const Task *task = &tasks->task;
    Inquiries *listings = &branch->interpreter.listings;
    bool awaited = task->awaits == AWAITS_ANSWER && task->branch == branch && message->id == listings->asked;
    MsgNamespace said;
    int r;

    if (!inquiries_answered(listings, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`namespace` that answers nothing");
    r = body_decode(&said, MsgNamespace, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    task_answer(tasks, task->id, MsgNamespace, &said);
    task_done(tasks);
    return 0;
}

/* ---- all tasks ---- */

/* The time for an interpreter that owes a checkpoint, once another is wanted. */
#define LISTENER_LIMIT (5 * NSEC_PER_SEC)

TaskHandler task_handler(MessageKind kind)
{
    static const struct {
        MessageKind kind;
        TaskHandler handle;
    } handlers[] = {
        {MSG_RESET, task_reset},
        {MSG_CLOSE, task_close},
        {MSG_CHECKPOINT, task_checkpoint},
        {MSG_CHECKPOINTS, task_checkpoints},
        {MSG_DROP, task_drop},
        {MSG_ROLLBACK, task_rollback},
        {MSG_BRANCH, task_branch},
        {MSG_CONTEXT, task_context},
        {MSG_COMMIT, task_commit},
        {MSG_NAMESPACE, task_namespace},
        {MSG_SAVE, task_move},
        {MSG_LOAD, task_move},
    };

    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++)
        if (handlers[i].kind == kind)
            return handlers[i].handle;
    return NULL;
}

/* ---- branches and checkpoints of a task ---- */

int task_find_branch(Branch **ret, const Tasks *tasks, uint64_t number, Problem *problem)
{
    Branch *branch = branches_find(tasks->branches, number);

    if (!branch || branch == tasks->task.made)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, number);
    *ret = branch;
    return 0;
}

int task_check_new(const Tasks *tasks, uint64_t number, Problem *problem)
{
    if (branches_find(tasks->branches, number))
        return problem_set(problem, ERR_BRANCH_EXISTS, "branch %" PRIu64 " exists", number);
    if (tasks->branches->count > LIMIT_BRANCHES)
        return problem_set(problem, ERR_TOO_LARGE, "a session may have at most %u branches; close one first",
                           LIMIT_BRANCHES);
    return 0;
}

int task_find_checkpoint(Checkpoint **ret, const Tasks *tasks, Text id_or_name, Problem *problem)
{
    Checkpoint *checkpoint = checkpoints_find(&tasks->branches->checkpoints, id_or_name);

    if (!checkpoint)
        return problem_set(problem, ERR_NO_SUCH_CHECKPOINT,
                           "there is no checkpoint '%.*s'; `limpet checkpoints` lists those that there are",
                           (int)id_or_name.size, id_or_name.data);
    *ret = checkpoint;
    return 0;
}

/* ---- beginning and end ---- */

bool tasks_are_about(const Tasks *tasks, const Branch *branch)
{
    const Task *task = &tasks->task;

    return tasks_are_active(tasks) &&
           (task->branch == branch || task->into == branch || task->made == branch);
}

int task_check_idle(const Tasks *tasks, Problem *problem)
{
    if (branches_are_busy(tasks->branches))
        return problem_set(problem, ERR_BUSY, "a call or a task is in progress");
    return 0;
}

int task_begin(Tasks *tasks, const Message *message, Branch *branch, Problem *problem)
{
    int r = task_check_idle(tasks, problem);

    if (r == 0)
        tasks->task = (Task){.id = message->id, .branch = branch};
    return r;
}

void task_done(Tasks *tasks)
{
    Task *task = &tasks->task;

    loop_timer_cancel(&task->limit);
    if (tasks_are_active(tasks) && task->loads)
        branch_vacate(task->branch);
    free(task->path);
    buf_deinit(&task->unreported);
    *task = (Task){0};
}

void task_refuse(Tasks *tasks, ErrorCode code, const char *format, ...)
{
    Branch *made = tasks->task.made;
    char text[PROBLEM_TEXT_MAX];
    Problem problem = PROBLEM_NULL;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    problem_set(&problem, code, "%s", text);
    link_refuse_problem(tasks->link, tasks->task.id, &problem);
    task_done(tasks);
    if (made)
        branch_end(made);
}

void task_cancel(Tasks *tasks, const char *why)
{
    if (tasks_are_active(tasks))
        task_refuse(tasks, ERR_CHECKPOINT_FAILED, "%s", why);
}

/* Its interpreter gives it up for the next message. */
/* Variables that are being loaded come in any case. */
void tasks_on_controller_lost(Tasks *tasks)
{
    if (!tasks->task.loads)
        task_cancel(tasks, "the controller that asked for it is gone");
}

/* ---- waiting ---- */

void task_await(Tasks *tasks, TaskAwaits awaits, void (*next)(Tasks *))
{
    Branch *branch = tasks->task.branch;

    tasks->task.awaits = awaits;
    tasks->task.next = next;
    if ((awaits == AWAITS_INTERPRETER || awaits == AWAITS_LISTENER) && branch->state == BRANCH_EMPTY)
        branch_start(branch);
    branches_changed(tasks->branches);
}

/* Each of these tells whether what is awaited is there. It may refuse the task. */

static bool has_interpreter(Tasks *tasks)
{
    const Branch *branch = tasks->task.branch;

    if (branch->state == BRANCH_EMPTY)
        task_refuse(tasks, ERR_INTERNAL, "cannot start the interpreter: %s", branch->why);
    return branch_is_ready(branch);
}

/* Variables that have been pickled are saved without it, too. */
static void do_without_checkpoint(Tasks *tasks, const char *why)
{
    Task *task = &tasks->task;

    if (!task->moves) {
        task_refuse(tasks, ERR_CHECKPOINT_FAILED, "no checkpoint could be taken: %s", why);
        return;
    }
    task->checkpoint = NULL;
    task_await(tasks, AWAITS_MEMORY, task->taken);
}

static void on_listener_due(LoopTimer *timer)
{
    do_without_checkpoint(container_of(timer, Tasks, task.limit),
                          "the interpreter still owes an earlier one; a thread of the code may keep it busy");
}

/* The limit counts from when there is an interpreter. */
static bool has_listener(Tasks *tasks)
{
    Task *task = &tasks->task;
    Loop *loop = tasks->branches->loop;

    if (!has_interpreter(tasks))
        return false;
    if (task->branch->state == BRANCH_IDLE) {
        loop_timer_cancel(&task->limit);
        return true;
    }
    if (!loop_timer_is_set(&task->limit) &&
        loop_timer_set(loop, &task->limit, clock_now() + LISTENER_LIMIT, on_listener_due) < 0)
        task_refuse(tasks, ERR_INTERNAL, "%s", strerror(ENOMEM));
    return false;
}

static bool has_checkpoint(Tasks *tasks)
{
    const Checkpoint *checkpoint = tasks->task.checkpoint;

    if (!checkpoint)
        do_without_checkpoint(tasks, tasks->task.trouble);
    return checkpoint && !checkpoint_is_pending(checkpoint);
}

static bool can_be_answered(Tasks *tasks)
{
    const Branch *branch = tasks->task.branch;

    if (!branch_is_ready(branch) || branch->epoch != tasks->task.epoch)
        task_interpreter_lost(tasks);
    return false; /* the answer is a message */
}

static bool has_memory(const Tasks *tasks)
{
    const Checkpoint *checkpoint = tasks->task.checkpoint;

    return !checkpoint || (!checkpoint_is_pending(checkpoint) && !checkpoint->saves);
}

static bool has_place(Tasks *tasks)
{
    const Branch *branch = tasks->task.branch;
    const Inquiries *preparations = &branch->interpreter.preparations;

    if (branch_is_ready(branch) && branch->epoch == tasks->task.epoch)
        return preparations->answered == preparations->asked;
    task_refuse(tasks, ERR_INTERNAL, "the interpreter was lost before the context was ready");
    return false;
}

static bool is_there(Tasks *tasks)
{
    const Task *task = &tasks->task;

    switch (task->awaits) {
    case AWAITS_NOTHING:
        return false;
    case AWAITS_INTERPRETER:
        return has_interpreter(tasks);
    case AWAITS_LISTENER:
        return has_listener(tasks);
    case AWAITS_CHECKPOINT:
        return has_checkpoint(tasks);
    case AWAITS_PLACE:
        return has_place(tasks);
    case AWAITS_BRANCH:
        return !branch_is_recovering(task->branch);
    case AWAITS_ANSWER:
        return can_be_answered(tasks);
    case AWAITS_MEMORY:
        return has_memory(tasks);
    }
    return false;
}

void tasks_advance(Tasks *tasks)
{
    if (is_there(tasks))
        tasks->task.next(tasks);
}

void tasks_on_gone(Tasks *tasks, const Checkpoint *checkpoint, const char *why)
{
    Task *task = &tasks->task;

    if (!tasks_are_active(tasks) || task->checkpoint != checkpoint)
        return;
    task->checkpoint = NULL;
    reason_set(task->trouble, "%s", why ? why : "it was given up");
}

/* ---- checkpoints ---- */

/* The pristine checkpoint has no id that could be told. What is saved is what there is now: threads may have
 * gone on since the last call. */
static bool may_reuse(const Task *task)
{
    const Branch *branch = task->branch;

    return !task->moves && task->kind == CHECKPOINT_AUTOMATIC && branch_is_exact(branch) &&
           branch->base->kind != CHECKPOINT_PRISTINE;
}

static void freeze(Tasks *tasks)
{
    Task *task = &tasks->task;

    task->implicit = !may_reuse(task);
    if (task->implicit && branch_freeze(task->branch, task->kind, task->name, task->trouble) < 0) {
        do_without_checkpoint(tasks, task->trouble);
        return;
    }
    task->checkpoint = task->branch->base;
    task_await(tasks, AWAITS_CHECKPOINT, task->taken);
}

void task_take_checkpoint(Tasks *tasks, CheckpointKind kind, void (*next)(Tasks *))
{
    tasks->task.kind = kind;
    tasks->task.taken = next;
    task_await(tasks, AWAITS_LISTENER, freeze);
}

/* ---- their life ---- */

void tasks_init(Tasks *tasks, Branches *branches, Executor *executor, Link *link)
{
    *tasks = (Tasks){.branches = branches, .executor = executor, .link = link};
}

void tasks_deinit(Tasks *tasks)
{
    task_done(tasks);
}
