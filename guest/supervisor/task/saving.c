/* save and load: the interpreter writes its variables to a directory, or takes those of another one. Where
 * the sandbox is to end a copy of it writes its memory there first, and in another sandbox of the session a
 * process that becomes that copy has everything, where it can be. Otherwise the variables do, which the
 * controller asks for once the memory is there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/task/task.h"
#include "proto/base/clock.h"

/* More than limpet_saving allows itself. */
#define MOVE_LIMIT (SAVE_SECONDS * NSEC_PER_SEC)

/* For the memory. The controller waits for longer. */
#define KEEP_LIMIT (20 * NSEC_PER_SEC)

/* As the interpreter calls the file. */
#define MEMORY_NAME "memory"

/* ---- what no record has told yet ---- */

static int keep_unreported(Task *task, const Value *said, Problem *problem)
{
    MsgUnreported unreported;
    Writer w;

    if (!said->map)
        return 0;
    if (body_decode(&unreported, MsgUnreported, said->map, problem) < 0)
        return -EPROTO;
    task->epoch = unreported.epoch;
    writer_init(&w, &task->unreported);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *said->map});
    return writer_finish(&w) < 0 ? problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM)) : 0;
}

static void tell(Task *task)
{
    Problem problem = PROBLEM_NULL;
    msgpack_unpacked unpacked;
    MsgUnreported said;

    if (task->unreported.size == 0)
        return;
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, (const char *)buf_head(&task->unreported), task->unreported.size,
                            NULL) == MSGPACK_UNPACK_SUCCESS &&
        body_decode(&said, MsgUnreported, &unpacked.data.via.map, &problem) == 0)
        branch_take_unreported(task->branch, &said);
    msgpack_unpacked_destroy(&unpacked);
}

/* The state that was to go on is lost: what there is begins anew, and the next record says so. */
static void lose(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;
    Reason note;

    branch_end_processes(branch);
    branch_forget_line(branch);
    tell(task);
    branch->epoch = task->epoch + 1;
    branch->execution_count = task->execution_count;
    branch->unreported.state = STATE_LOST;
    reason_set(branch->unreported.reason, "%s", task->trouble);
    reason_set(note, "all variables: %s", task->trouble);
    notes_deinit(&branch->restored);
    notes_add(&branch->restored, text_of(note));
    branch->is_restored = true;
    task_answer(
        tasks, task->id, MsgLoaded,
        (&(MsgLoaded){.missing = notes_say(&branch->restored), .execution_count = task->execution_count}));
    task_done(tasks);
    branch_start(branch);
}

static ErrorCode failure(const Task *task)
{
    return !task->moves ? ERR_INTERNAL : task->loads ? ERR_RESTORE_FAILED : ERR_SAVE_FAILED;
}

void task_unanswered(Tasks *tasks, const char *why)
{
    Task *task = &tasks->task;

    if (!task->resumes) {
        task_refuse(tasks, failure(task), "%s", why);
        return;
    }
    loop_timer_cancel(&task->limit);
    reason_set(task->trouble, "%s", why);
    task_await(tasks, AWAITS_BRANCH, lose);
}

void task_interpreter_lost(Tasks *tasks)
{
    bool saves = tasks->task.moves && !tasks->task.loads;

    task_unanswered(tasks,
                    saves ? "the interpreter was lost while its variables were saved; the next call says "
                            "what became of them, and it can be tried again"
                          : "the interpreter was lost before it answered");
}

static void on_limit_due(LoopTimer *timer)
{
    Tasks *tasks = container_of(timer, Tasks, task.limit);

    task_unanswered(tasks, "the interpreter was not done in time; a thread of the code may keep it busy");
}

static int ask(Task *task)
{
    Interpreter *interpreter = &task->branch->interpreter;
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r =
        channel_say(&frame, task->loads ? MSG_LOAD : MSG_SAVE, ++interpreter->moves.asked, MsgSaveCell,
                    (&(MsgSaveCell){.path = text_of(task->path), .whole = task->ends, .adds = task->adds}));

    return r < 0 ? r : interpreter_send(interpreter, &frame);
}

/* Begins as a call does: a state that is loaded is protected like that after a call. */
static void begin_load(Task *task)
{
    task->execution_count = MAX(task->execution_count, task->branch->execution_count);
    branch_occupy(task->branch, task->execution_count, clock_now());
}

static void move(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;
    int r;

    task->epoch = branch->epoch = MAX(branch->epoch, task->epoch);
    if (task->loads)
        begin_load(task);
    r = ask(task);
    if (r == 0)
        r = loop_timer_set(branch->set->loop, &task->limit, clock_now() + MOVE_LIMIT, on_limit_due);
    if (r < 0)
        task_refuse(tasks, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
    else
        task_await(tasks, AWAITS_ANSWER, NULL);
}

/* Makes the path that the interpreter knows it by. NULL when out of memory. */
static char *path_inside(const Tasks *tasks, Text path)
{
    const char *directory = tasks->branches->command_line->directory;
    const size_t n = strlen(SESSION_PATH "/");
    char *ret = NULL;

    if (path.size < n || memcmp(path.data, SESSION_PATH "/", n) != 0)
        return text_dup(path);
    return asprintf(&ret, "%s/%.*s", directory, (int)(path.size - n), path.data + n) < 0 ? NULL : ret;
}

/* ---- another sandbox's memory ---- */

/* The state is that of the checkpoint, and the session goes on with it. */
static void resume(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;

    notes_deinit(&branch->restored);
    branch->restored = branch->unreported.not_restored;
    branch->unreported.not_restored = NOTES_NULL;
    branch->is_restored = true;
    state_change_deinit(&branch->unreported);
    tell(task);
    branch->epoch = task->epoch;
    branch->execution_count = MAX(branch->execution_count, task->execution_count);
    if (policy_mode(branch) == CHECKPOINT_OFF && task->checkpoint)
        checkpoint_drop(task->checkpoint, NULL);
    task_answer(tasks, task->id, MsgLoaded,
                (&(MsgLoaded){.missing = notes_say(&branch->restored),
                              .execution_count = task->execution_count,
                              .memory = true}));
    task_done(tasks);
}

static void load_variables(Tasks *tasks)
{
    task_await(tasks, AWAITS_INTERPRETER, move);
}

static void gone_back(Tasks *tasks)
{
    Task *task = &tasks->task;
    const StateChange *change = &task->branch->unreported;

    if (change->state == STATE_ROLLED_BACK && change->checkpoint == task->checkpoint_number) {
        resume(tasks);
        return;
    }
    branch_forget_past(task->branch);
    load_variables(tasks);
}

static void go_back(Tasks *tasks)
{
    Task *task = &tasks->task;

    if (!task->checkpoint) {
        load_variables(tasks);
        return;
    }
    task->checkpoint_number = task->checkpoint->number;
    branch_go_back(task->branch, task->checkpoint, task->forks ? COPY_FORK : COPY_BACK);
    task_await(tasks, AWAITS_BRANCH, gone_back);
}

/* Tries the memory first. Only the process that is to become it finds out whether it is there and fits: the
 * supervisor may not look into the directory. */
static void thaw(Tasks *tasks)
{
    Task *task = &tasks->task;
    char *file = NULL;

    if (asprintf(&file, "%s/" MEMORY_NAME, task->path) < 0)
        file = NULL;
    if (file && branch_thaw(task->branch, file, task->execution_count, &task->checkpoint) == 0)
        task_await(tasks, AWAITS_MEMORY, go_back);
    else
        load_variables(tasks);
    free(file);
}

static void answer_saved(Tasks *tasks)
{
    Task *task = &tasks->task;

    MsgSaveReply reply = {.memory = task->checkpoint && task->checkpoint->saved};

    tasks->ended |= task->ends && reply.memory;
    reply.has_unreported = task->ends && branch_say_unreported(task->branch, &reply.unreported);
    if (task->implicit && task->checkpoint && policy_mode(task->branch) == CHECKPOINT_OFF)
        checkpoint_drop(task->checkpoint, NULL);
    task_answer(tasks, task->id, MsgSaveReply, &reply);
    task_done(tasks);
}

static void on_keep_due(LoopTimer *timer)
{
    answer_saved(container_of(timer, Tasks, task.limit));
}

/* The copy itself makes the file, with the rights of the code in it. */
static int write_memory(Task *task)
{
    int directory _cleanup_(closep) = open(task->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return directory < 0 ? -errno : checkpoint_save(task->checkpoint, directory);
}

/* All of it is in the memory; the variables are written where that cannot be. */
static void kept(Tasks *tasks)
{
    const Checkpoint *checkpoint = tasks->task.checkpoint;

    if (checkpoint && checkpoint->saved)
        answer_saved(tasks);
    else
        task_await(tasks, AWAITS_INTERPRETER, move);
}

static void on_memory_due(LoopTimer *timer)
{
    kept(container_of(timer, Tasks, task.limit));
}

static int begin_keeping(Tasks *tasks, void (*late)(LoopTimer *), void (*next)(Tasks *))
{
    Task *task = &tasks->task;
    int r = task->checkpoint ? write_memory(task) : -ESRCH;

    if (r == 0)
        r = loop_timer_set(task->branch->set->loop, &task->limit, clock_now() + KEEP_LIMIT, late);
    if (r == 0)
        task_await(tasks, AWAITS_MEMORY, next);
    return r;
}

static void keep_alone(Tasks *tasks)
{
    if (begin_keeping(tasks, on_memory_due, kept) < 0)
        kept(tasks);
}

/* Without it the variables are there. */
static void keep_memory(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;

    if (branch->epoch != task->epoch)
        task_interpreter_lost(tasks);
    else if (begin_keeping(tasks, on_keep_due, answer_saved) < 0)
        answer_saved(tasks);
}

/* Without an engine's container, paths in the memory are those of one session alone. */
static bool is_contained(const Tasks *tasks)
{
    return strcmp(tasks->branches->command_line->directory, SESSION_PATH) == 0;
}

static bool keeps_memory_alone(const Tasks *tasks, const MsgSaveOrder *asked)
{
    return !tasks->task.loads && (asked->ends || (asked->forks && is_contained(tasks)));
}

/* Refuses to end a sandbox in which other programs run. */
static int check_end(const Branch *branch, const MsgSaveOrder *asked, Problem *problem)
{
    const char *what = asked->ends ? branch->set->events->in_use(branch->set) : NULL;

    return what ? problem_set(problem, ERR_BUSY, "%s", what) : 0;
}

static int begin(Tasks *tasks, const Message *message, const MsgSaveOrder *asked, Problem *problem)
{
    Branch *branch = NULL;
    int r = task_find_branch(&branch, tasks, asked->branch, problem);

    if (r == 0 && branch_is_foreign(branch))
        r = problem_set(problem, ERR_BAD_REQUEST, "the variables of a context of %s cannot be saved",
                        branch->place.language);
    if (r == 0)
        r = check_end(branch, asked, problem);
    if (r == 0)
        r = task_begin(tasks, message, branch, problem);
    if (r < 0)
        return r;
    tasks->task.moves = true;
    tasks->task.loads = message->kind == MSG_LOAD;
    tasks->task.ends = asked->ends;
    tasks->task.resumes = asked->epoch != NO_UINT;
    tasks->task.adds = asked->adds;
    tasks->task.memory = tasks->task.resumes || (asked->memory && is_contained(tasks));
    tasks->task.forks = asked->forks || asked->memory; /* a file may be restored more than once */
    tasks->task.epoch = uint_or(asked->epoch, branch->epoch);
    tasks->task.execution_count = uint_or(asked->execution_count, 0);
    if (keep_unreported(&tasks->task, &asked->unreported, problem) < 0)
        return -EPROTO;
    tasks->task.path = path_inside(tasks, asked->path);
    if (!tasks->task.path)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    if (tasks->task.loads && tasks->task.memory)
        thaw(tasks);
    else if (keeps_memory_alone(tasks, asked) && branch_make_place(branch, tasks->task.path))
        task_take_checkpoint(tasks, CHECKPOINT_AUTOMATIC, keep_alone);
    else
        task_await(tasks, AWAITS_INTERPRETER, move);
    return 0;
}

/* Saves or loads. A task of an earlier controller does not hold up the same one of the next. */
int task_move(Tasks *tasks, const Message *message, Problem *problem)
{
    MsgSaveOrder body;
    int r = body_decode(&body, MsgSaveOrder, &message->body, problem);

    if (r == 0 && body.adds && !tasks->ended) /* what is there is being loaded */
        return problem_set(problem, ERR_BAD_REQUEST, "this sandbox has not written its memory");
    if (r == 0 && tasks_are_active(tasks) && tasks->task.moves)
        task_cancel(tasks, "it was asked for again");
    return r < 0 ? r : begin(tasks, message, &body, problem);
}

static void loaded(Tasks *tasks, const MsgSavedCell *said)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;
    Reason note;

    branch->execution_count = task->execution_count;
    branch->is_restored = true;
    branch_call_ended(branch, 0, clock_now());
    if (task->resumes) /* a call may follow at once */
        policy_protect(branch);
    notes_take(&branch->restored, &said->missing);
    if (task->memory && !task->resumes) {
        reason_set(note, "the memory was not taken: %s", task->trouble);
        notes_add(&branch->restored, text_of(note));
    }
    tell(task);
    task_answer(
        tasks, task->id, MsgLoaded,
        (&(MsgLoaded){.missing = notes_say(&branch->restored), .execution_count = task->execution_count}));
}

/* An answer that comes too late is nobody's. */
int tasks_on_moved(Tasks *tasks, Branch *branch, const Message *message, Problem *problem)
{
    Task *task = &tasks->task;
    Inquiries *moves = &branch->interpreter.moves;
    bool awaited = task->awaits == AWAITS_ANSWER && task->branch == branch && message->id == moves->asked;
    MsgSavedCell said;
    Reason why;
    int r;

    if (!inquiries_answered(moves, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`%s` that answers nothing",
                           message_name(message->kind));
    r = body_decode(&said, MsgSavedCell, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    if (said.error.data) {
        reason_set(why, "%.*s", (int)said.error.size, said.error.data);
        task_unanswered(tasks, why);
        return 0;
    }
    if (!task->loads && task->memory) {
        loop_timer_cancel(&task->limit);
        task_take_checkpoint(tasks, CHECKPOINT_AUTOMATIC, keep_memory);
        return 0;
    }
    if (!task->loads) {
        answer_saved(tasks);
        return 0;
    }
    loaded(tasks, &said);
    task_done(tasks);
    return 0;
}
