#include <string.h>

#include "host/front/ops.h"
#include "host/session/checkpoint_files.h"

typedef struct RollbackOrder {
    CheckpointOrder target;
    char entry[SNAPSHOT_ENTRY_SIZE]; /* of its files; "" when it has none */
    bool staged;                     /* a copy of these is ready */
    Buf reply;                       /* what the client gets */
    Problem problem;                 /* or this */
} RollbackOrder;

static void write_reply(Buf *ret, const MsgRolledBackOrder *said, bool restored)
{
    const MsgRollbackReply reply = {
        .checkpoint = said->checkpoint,
        .execution_count = said->execution_count,
        .epoch = said->epoch,
        .files = text_of(restored ? "restored" : "kept"),
        .not_restored = said->not_restored,
    };

    body_encode(ret, MsgRollbackReply, &reply);
}

static void begin_job(RollbackOrder *rollback, void (*run)(FilesJob *job),
                      void (*then)(Order *order, FilesJob *job))
{
    Problem problem = PROBLEM_NULL;
    FilesJob *job = files_job_new(&rollback->target.order, false, &problem);

    if (job)
        strcpy(job->entry, rollback->entry);
    if (!job || files_job_begin(job, run, then, &problem) < 0)
        order_fail(&rollback->target.order, &problem);
}

static void answer_client(RollbackOrder *rollback)
{
    Buf body _cleanup_(buf_deinit) = rollback->reply;

    rollback->reply = BUF_NULL;
    order_reply(&rollback->target.order, &body);
}

/* First a copy of the files, which can fail and changes nothing; */

static void stage(FilesJob *job)
{
    snapshot_stage(job->store, job->entry, job->files, &job->problem);
}

static void on_staged(Order *order, FilesJob *job)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Problem problem = job->problem;

    files_job_free(job);
    rollback->staged = problem.code == ERR_NONE;
    if (rollback->staged)
        order_send(order);
    else
        order_fail(order, &problem);
}

static void start(Order *order)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    if (checkpoint_files_find(order->turn.sandbox, text_of(rollback->target.checkpoint), rollback->entry))
        begin_job(rollback, stage, on_staged);
    else
        order_send(order);
}

/* then the variables; then the files change places, and what is in artifacts is nothing new. */

static void restore(FilesJob *job)
{
    snapshot_restore(job->files, &job->problem);
}

static void on_accepted(void *userdata, ArtifactList *none)
{
    FilesJob *job = userdata;
    Turn *turn = job->work.turn;

    files_job_free(job);
    if (turn)
        answer_client(container_of(turn, RollbackOrder, target.order.turn));
}

static void on_restored(Order *order, FilesJob *job)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Sandbox *sandbox = order->turn.sandbox;
    Problem problem = job->problem;

    rollback->staged = false;
    if (problem.code != ERR_NONE) {
        files_job_free(job);
        problem_prefix(&problem,
                       "the variables were rolled back, but the files in /session were not restored");
        order_fail(order, &problem);
    } else if (artifacts_accept(sandbox->artifacts, sandbox->all->worker, on_accepted, job) < 0) {
        files_job_free(job);
        answer_client(rollback);
    }
}

/* Whether what is staged belongs to the checkpoint that was restored. */
static bool staged_is(const RollbackOrder *rollback, Text checkpoint)
{
    return rollback->staged && strncmp(rollback->entry, checkpoint.data, checkpoint.size) == 0 &&
           rollback->entry[checkpoint.size] == '@';
}

/* or, when the variables could not be, the copy is not needed. */

static void unstage(FilesJob *job)
{
    snapshot_unstage(job->files);
}

static void on_unstaged(Order *order, FilesJob *job)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    files_job_free(job);
    if (rollback->problem.code == ERR_NONE)
        answer_client(rollback);
    else
        order_fail(order, &rollback->problem);
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Session *session = order->turn.session;
    MsgRolledBackOrder said;
    bool matches;
    int r = body_decode(&said, MsgRolledBackOrder, reply, problem);

    if (r < 0)
        return r;
    session_note(session, session->execution_count, said.epoch);
    matches = staged_is(rollback, said.checkpoint);
    write_reply(&rollback->reply, &said, matches);
    if (matches)
        begin_job(rollback, restore, on_restored);
    else if (rollback->staged)
        begin_job(rollback, unstage, on_unstaged);
    else
        answer_client(rollback);
    return 0;
}

static void refused(Order *order, const Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    rollback->problem = *problem;
    if (rollback->staged)
        begin_job(rollback, unstage, on_unstaged);
    else
        order_fail(order, problem);
}

static void over(Order *order, const Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    if (problem && problem->code == ERR_NO_SUCH_CHECKPOINT && *rollback->entry)
        op_checkpoint_gone(&rollback->target);
    buf_deinit(&rollback->reply);
}

static const OrderOps rollback_ops = {
    .kind = MSG_ROLLBACK, .start = start, .answer = answer, .refused = refused, .over = over};

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    RollbackOrder *rollback = op_checkpoint_order(front, request, body, sizeof(*rollback), &rollback_ops);

    if (!rollback)
        return;
    order_say(&rollback->target.order, MsgRollbackOrder,
              (&(MsgRollbackOrder){.branch = rollback->target.order.turn.session->branch,
                                   .checkpoint = text_of(rollback->target.checkpoint)}));
    order_queue(&rollback->target.order);
}

const Op op_rollback = {.kind = MSG_ROLLBACK, .handle = handle};
