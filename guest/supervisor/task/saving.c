/* save and load: the interpreter writes its variables to a directory, or takes those of another one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/task/internal.h"
#include "proto/base/clock.h"

/* What limpet_saving allows itself is less. */
#define MOVE_LIMIT (SAVE_SECONDS * NSEC_PER_SEC)

static void on_limit_due(LoopTimer *timer)
{
    Tasks *tasks = container_of(timer, Tasks, task.limit);

    task_refuse(tasks, tasks->task.loads ? ERR_RESTORE_FAILED : ERR_SAVE_FAILED,
                "the interpreter was not done in time; a thread of the code may keep it busy");
}

static int ask(Branch *branch, MessageKind kind, uint64_t id, const char *path)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(&frame, kind, id, MsgSaveCell, &(MsgSaveCell){.path = text_of(path)});

    return r < 0 ? r : interpreter_send(&branch->interpreter, &frame);
}

/* What is loaded makes a state like that after a call, and is protected like it. */
static void begin_load(Task *task)
{
    task->occupies = true;
    task->number = MAX(task->number, task->branch->execution_count);
    branch_occupy(task->branch, task->number, clock_now());
}

static void move(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;
    int r;

    task->epoch = branch->epoch;
    if (task->loads)
        begin_load(task);
    r = ask(branch, task->loads ? MSG_LOAD : MSG_SAVE, ++branch->interpreter.moves.asked, task->path);
    free(take(task->path));
    if (r == 0)
        r = loop_timer_set(branch->set->loop, &task->limit, clock_now() + MOVE_LIMIT, on_limit_due);
    if (r < 0)
        task_refuse(tasks, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
    else
        task_await(tasks, AWAITS_ANSWER, NULL);
}

/* Where it is for the interpreter. NULL when out of memory. */
static char *path_inside(const Tasks *tasks, Text path)
{
    const char *directory = tasks->branches->command_line->directory;
    const size_t n = strlen(SESSION_PATH "/");
    char *ret = NULL;

    if (path.size < n || memcmp(path.data, SESSION_PATH "/", n) != 0)
        return text_dup(path);
    return asprintf(&ret, "%s/%.*s", directory, (int)(path.size - n), path.data + n) < 0 ? NULL : ret;
}

static int begin(Tasks *tasks, const Message *message, const MsgSaveOrder *asked, Problem *problem)
{
    Branch *branch = NULL;
    int r = task_find_branch(&branch, tasks, asked->branch, problem);

    if (r == 0 && branch_is_foreign(branch))
        r = problem_set(problem, ERR_BAD_REQUEST, "the variables of a context of %s cannot be saved",
                        branch->place.language);
    if (r == 0)
        r = task_begin(tasks, message, branch, problem);
    if (r < 0)
        return r;
    tasks->task.moves = true;
    tasks->task.loads = message->kind == MSG_LOAD;
    tasks->task.number = uint_or(asked->execution_count, 0);
    tasks->task.path = path_inside(tasks, asked->path);
    if (!tasks->task.path)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    task_await(tasks, AWAITS_INTERPRETER, move);
    return 0;
}

/* One that was asked for by a controller which is no more holds up none that is asked for again. */
int task_move(Tasks *tasks, const Message *message, Problem *problem)
{
    MsgSaveOrder body;
    int r = body_decode(&body, MsgSaveOrder, &message->body, problem);

    if (r == 0 && tasks_are_active(tasks) && tasks->task.moves)
        task_cancel(tasks, "it was asked for again");
    return r < 0 ? r : begin(tasks, message, &body, problem);
}

static void loaded(Tasks *tasks, const MsgSavedCell *said)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;

    branch->execution_count = task->number;
    branch->is_restored = true;
    branch_call_ended(branch, 0, clock_now());
    notes_take(&branch->restored, &said->missing);
    task_answer(tasks, task->id, MsgLoaded,
                (&(MsgLoaded){.missing = notes_say(&branch->restored), .execution_count = task->number}));
}

/* An answer that comes too late is nobody's. */
int tasks_on_moved(Tasks *tasks, Branch *branch, const Message *message, Problem *problem)
{
    const Task *task = &tasks->task;
    Inquiries *moves = &branch->interpreter.moves;
    bool awaited = task->awaits == AWAITS_ANSWER && task->branch == branch && message->id == moves->asked;
    MsgSavedCell said;
    int r;

    if (!inquiries_answered(moves, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`%s` that answers nothing",
                           message_name(message->kind));
    r = body_decode(&said, MsgSavedCell, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    if (said.error.data)
        task_refuse(tasks, task->loads ? ERR_RESTORE_FAILED : ERR_SAVE_FAILED, "%.*s", (int)said.error.size,
                    said.error.data);
    else if (task->loads)
        loaded(tasks, &said);
    else
        task_answer(tasks, task->id, MsgNothing, &(MsgNothing){0});
    task_done(tasks);
    return 0;
}
