/* Functions that tasks have for each other; nobody else includes this. */
#pragma once

#include "guest/supervisor/task/task.h"

/* task.c */

/* 0, or -EPROTO with a Problem when a call or a task is under way. */
int task_check_idle(const Tasks *tasks, Problem *problem);
/* Begins a task about `branch`. As task_check_idle(). */
int task_begin(Tasks *tasks, const Message *message, Branch *branch, Problem *problem);
/* The task goes on with `next` when what it awaits is there. */
void task_await(Tasks *tasks, TaskAwaits awaits, void (*next)(Tasks *));
/* The task goes on with `next` when task->checkpoint is kept: one of exactly the branch's live state. It is
 * taken now, unless an automatic one will do and exists. */
void task_take_checkpoint(Tasks *tasks, CheckpointKind kind, void (*next)(Tasks *));

/* The task is over. */
void task_done(Tasks *tasks);
void task_refuse(Tasks *tasks, ErrorCode code, const char *format, ...) _printf_(3, 4);
/* Ends the task that is under way with an error, because what it was about is gone. */
void task_cancel(Tasks *tasks, const char *why);
/* Sends the task's answer, a `type`. 0, or as link_say(). */
#define task_answer(tasks, id, type, from) link_reply((tasks)->link, id, type, from)

int task_find_branch(Branch **ret, const Tasks *tasks, uint64_t number, Problem *problem);
/* Checks that there may be a new branch of that number. */
int task_check_new(const Tasks *tasks, uint64_t number, Problem *problem);
int task_find_checkpoint(Checkpoint **ret, const Tasks *tasks, Text id_or_name, Problem *problem);

/* Handlers, one for each kind */

int task_checkpoint(Tasks *tasks, const Message *message, Problem *problem);
int task_checkpoints(Tasks *tasks, const Message *message, Problem *problem);
int task_drop(Tasks *tasks, const Message *message, Problem *problem);
int task_rollback(Tasks *tasks, const Message *message, Problem *problem);
int task_branch(Tasks *tasks, const Message *message, Problem *problem);
int task_context(Tasks *tasks, const Message *message, Problem *problem);
int task_commit(Tasks *tasks, const Message *message, Problem *problem);
int task_close(Tasks *tasks, const Message *message, Problem *problem);
int task_reset(Tasks *tasks, const Message *message, Problem *problem);
int task_move(Tasks *tasks, const Message *message, Problem *problem);
int task_namespace(Tasks *tasks, const Message *message, Problem *problem);

/* saving.c */

/* The interpreter has not done what it was asked for. */
void task_unanswered(Tasks *tasks, ErrorCode code, const char *why);
