/* Checkpoints: checkpoint, checkpoints, rollback, drop. */
#include <string.h>

#include "host/front/ops.h"
#include "host/session/checkpoint_files.h"

/* ---- what they share ---- */

/* An order about a checkpoint. */
typedef struct CheckpointOrder {
    Order order;
    char checkpoint[LIMIT_SESSION_NAME + 1]; /* its id or name */
} CheckpointOrder;

/* The order that a request asks for which names a session and a checkpoint: `size` bytes, zero but for the
 * CheckpointOrder they begin with. Answers the request and returns NULL where there is none. */
static void *checkpoint_order(Front *front, Request *request, const msgpack_object_map *body, size_t size,
                              const OrderOps *kind)
{
    MsgCheckpointTarget target;
    Session *session;
    CheckpointOrder *order;

    session = op_decode_session(front, request, &target, MsgCheckpointTarget, body);
    if (session && !name_valid(target.checkpoint)) {
        request_fail_text(request, ERR_NO_SUCH_CHECKPOINT,
                          "the session has no checkpoint with this id or name");
        return NULL;
    }
    order = session ? order_new(size, kind, session, request) : NULL;
    if (order)
        memcpy(order->checkpoint, target.checkpoint.data, target.checkpoint.size);
    return order;
}

/* The checkpoint is gone: its files go, too. */
static void checkpoint_gone(const CheckpointOrder *order)
{
    checkpoint_files_drop(order->order.to_guest.sandbox, text_of(order->checkpoint));
}

/* ---- checkpoint ---- */

typedef struct TakeOrder {
    Order order;
    char name[LIMIT_SESSION_NAME + 1]; /* "": none */
    bool files;
    bool copied;
    uint64_t bytes;
    char id[LIMIT_SESSION_NAME + 1]; /* of the checkpoint, once it is taken */
    Buf reply;                       /* to the client */
} TakeOrder;

/* The files come first: when they cannot be kept no checkpoint is taken. */
static void on_copied(Order *order, const Problem *problem, const JobAnswer *answer)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);

    checkpoint->copied = !problem;
    if (problem) {
        order_fail(order, problem);
        return;
    }
    checkpoint->bytes = answer->as_TAKE.bytes;
    order_send(order);
}

static void start_checkpoint(Order *order)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);
    Problem problem = PROBLEM_NULL;

    if (!checkpoint->files)
        order_send(order);
    else if (checkpoint_files_take(order, on_copied, &problem) < 0)
        order_fail(order, &problem);
}

static void answer_taken(TakeOrder *checkpoint)
{
    Buf reply _cleanup_(buf_deinit) = checkpoint->reply;

    checkpoint->reply = BUF_NULL;
    order_reply(&checkpoint->order, &reply);
}

static void on_kept(Order *order, const Problem *problem, const JobAnswer *answer)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);
    Problem failure;

    checkpoint->copied = problem != NULL;
    if (!problem) {
        answer_taken(checkpoint);
        return;
    }
    failure = *problem;
    problem_prefix(&failure, "the checkpoint %s was taken, but without the files", checkpoint->id);
    order_fail(order, &failure);
}

static void keep_files(TakeOrder *checkpoint)
{
    Text name = *checkpoint->name ? text_of(checkpoint->name) : (Text){0};
    Problem problem = PROBLEM_NULL;

    if (checkpoint_files_keep(&checkpoint->order, text_of(checkpoint->id), name, checkpoint->bytes, on_kept,
                              &problem) < 0)
        on_kept(&checkpoint->order, &problem, NULL);
}

static int answer_checkpoint(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);
    Sandbox *sandbox = order->to_guest.sandbox;
    char name[BRANCH_NAME_SIZE];
    MsgTaken taken = {0};
    MsgTakenOrder said;
    int r = body_decode(&said, MsgTakenOrder, reply, problem);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < value_count(&said.dropped); i++)
        checkpoint_files_drop(sandbox, value_text(&said.dropped, i));
    taken.dropped = said.dropped;
    taken.checkpoint = checkpoint_to_wire(sandbox->root, &said.checkpoint, checkpoint->files, name);
    memcpy(checkpoint->id, said.checkpoint.id.data, said.checkpoint.id.size);
    body_encode(&checkpoint->reply, MsgTaken, &taken);
    if (checkpoint->copied)
        keep_files(checkpoint);
    else
        answer_taken(checkpoint);
    return 0;
}

static void checkpoint_over(Order *order, const Problem *problem)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);

    buf_deinit(&checkpoint->reply);
    if (checkpoint->copied)
        checkpoint_files_give_up(order->to_guest.sandbox);
}

static const OrderOps checkpoint_ops = {
    .kind = MSG_CHECKPOINT, .start = start_checkpoint, .answer = answer_checkpoint, .over = checkpoint_over};

static void queue_checkpoint(Session *session, Request *request, const MsgTake *asked)
{
    TakeOrder *checkpoint = order_new(sizeof(*checkpoint), &checkpoint_ops, session, request);

    if (!checkpoint)
        return;
    checkpoint->files = asked->files;
    memcpy(checkpoint->name, asked->name.data ? asked->name.data : "", asked->name.size);
    order_set_body(&checkpoint->order, MsgTakeOrder,
                   (&(MsgTakeOrder){.branch = session->branch, .name = asked->name}));
    order_queue(&checkpoint->order);
}

static void handle_checkpoint(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgTake asked;
    Session *session = op_decode_session(front, request, &asked, MsgTake, body);

    if (!session)
        return;
    if (asked.name.data && !name_valid(asked.name))
        request_fail_text(
            request, ERR_BAD_REQUEST,
            "a checkpoint name has 1 to %u characters of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
    else
        queue_checkpoint(session, request, &asked);
}

const Op op_checkpoint = {.kind = MSG_CHECKPOINT, .handle = handle_checkpoint};

/* ---- checkpoints ---- */

/* An order for the checkpoints of a sandbox, as its supervisor lists them. */
typedef struct ListOrder {
    Order order;
    char (*kept)[LIMIT_SESSION_NAME + 1]; /* ids of those that have a copy of the files */
    size_t n_kept;
    const Value *said;
} ListOrder;

static bool has_files(const ListOrder *list, Text id)
{
    for (size_t i = 0; i < list->n_kept; i++)
        if (text_equal(id, list->kept[i]))
            return true;
    return false;
}

static void write_rows(Writer *w, const void *source)
{
    const ListOrder *list = source;
    char name[BRANCH_NAME_SIZE];
    MsgGuestCheckpoint said;
    MsgCheckpoint checkpoint;

    write_array(w, value_count(list->said));
    for (uint32_t i = 0; i < value_count(list->said); i++) {
        value_row(&said, MsgGuestCheckpoint, list->said, i);
        checkpoint =
            checkpoint_to_wire(list->order.to_guest.sandbox->root, &said, has_files(list, said.id), name);
        body_write(w, MsgCheckpoint, &checkpoint);
    }
}

static void on_listed(Order *order, const Problem *problem, const JobAnswer *answer)
{
    ListOrder *list = container_of(order, ListOrder, order);
    const Value *ids = problem ? NULL : &answer->as_LIST.checkpoints;

    if (problem) {
        order_fail(order, problem);
        return;
    }
    list->kept = calloc(value_count(ids) + 1, sizeof(*list->kept));
    for (; list->kept && list->n_kept < value_count(ids); list->n_kept++) {
        Text id = value_text(ids, (uint32_t)list->n_kept);

        memcpy(list->kept[list->n_kept], id.data, id.size);
    }
    order_send(order);
}

/* Between this and the supervisor's answer no checkpoint is taken. */
static void start_checkpoints(Order *order)
{
    Problem problem = PROBLEM_NULL;

    if (checkpoint_files_list(order, on_listed, &problem) < 0)
        order_fail(order, &problem);
}

static int answer_checkpoints(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    ListOrder *list = container_of(order, ListOrder, order);
    MsgGuestCheckpoints said;
    MsgCheckpoints body = {.checkpoints = {.write = write_rows, .source = list}};
    Buf encoded _cleanup_(buf_deinit) = BUF_NULL;
    int r = body_decode(&said, MsgGuestCheckpoints, reply, problem);

    if (r < 0)
        return r;
    checkpoint_files_prune(order->to_guest.sandbox, &said.checkpoints);
    list->said = &said.checkpoints;
    body_encode(&encoded, MsgCheckpoints, &body);
    order_reply(order, &encoded);
    return 0;
}

static void checkpoints_over(Order *order, const Problem *problem)
{
    free(container_of(order, ListOrder, order)->kept);
}

static const OrderOps checkpoints_ops = {.kind = MSG_CHECKPOINTS,
                                         .start = start_checkpoints,
                                         .answer = answer_checkpoints,
                                         .over = checkpoints_over};

static void handle_checkpoints(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);
    ListOrder *list = session ? order_new(sizeof(*list), &checkpoints_ops, session, request) : NULL;

    if (!list)
        return;
    order_set_body(&list->order, MsgNothing, &(MsgNothing){0});
    order_queue(&list->order);
}

const Op op_checkpoints = {.kind = MSG_CHECKPOINTS, .handle = handle_checkpoints};

/* ---- rollback ---- */

typedef struct RollbackOrder {
    CheckpointOrder target;
    char files[LIMIT_SESSION_NAME + 1]; /* id of the one whose files are copied; "" when it has none */
    bool staged;                        /* a copy of these is ready */
    Buf reply;                          /* to the client */
    Problem problem;                    /* or this */
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

static void answer_client(RollbackOrder *rollback)
{
    Buf body _cleanup_(buf_deinit) = rollback->reply;

    rollback->reply = BUF_NULL;
    order_reply(&rollback->target.order, &body);
}

/* First a copy of the files, which can fail and changes nothing; */

static void on_staged(Order *order, const Problem *problem, const JobAnswer *answer)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    rollback->staged = !problem;
    if (rollback->staged)
        order_send(order);
    else
        order_fail(order, problem);
}

static void on_found(Order *order, const Problem *problem, const JobAnswer *answer)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    const Text found = problem ? (Text){0} : answer->as_FIND.checkpoint;
    Problem failure = PROBLEM_NULL;

    memcpy(rollback->files, found.data ? found.data : "", found.size);
    if (problem)
        order_fail(order, problem);
    else if (!found.data)
        order_send(order);
    else if (checkpoint_files_stage(order, rollback->files, on_staged, &failure) < 0)
        order_fail(order, &failure);
}

static void start_rollback(Order *order)
{
    const RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Problem problem = PROBLEM_NULL;

    if (checkpoint_files_find(order, rollback->target.checkpoint, on_found, &problem) < 0)
        order_fail(order, &problem);
}

/* then the variables; then the files change places, and what is in artifacts is nothing new. */

static void on_accepted(Order *order)
{
    answer_client(container_of(order, RollbackOrder, target.order));
}

static void on_restored(Order *order, const Problem *problem, const JobAnswer *answer)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Problem failure;

    rollback->staged = false;
    if (!problem) {
        checkpoint_files_accept(order, on_accepted);
        return;
    }
    failure = *problem;
    problem_prefix(&failure, "the variables were rolled back, but the files in /session were not restored");
    order_fail(order, &failure);
}

/* Returns whether the staged copy belongs to the checkpoint that was restored. */
static bool staged_is(const RollbackOrder *rollback, Text checkpoint)
{
    return rollback->staged && text_equal(checkpoint, rollback->files);
}

/* or, when the variables could not be, the copy is not needed. */

static void on_unstaged(Order *order, const Problem *problem, const JobAnswer *answer)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    if (rollback->problem.code == ERR_NONE)
        answer_client(rollback);
    else
        order_fail(order, &rollback->problem);
}

static void begin_files(RollbackOrder *rollback, int (*what)(Order *, FilesThen *, Problem *),
                        FilesThen *then)
{
    Problem problem = PROBLEM_NULL;

    if (what(&rollback->target.order, then, &problem) < 0)
        order_fail(&rollback->target.order, &problem);
}

static int answer_rollback(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Session *session = order->to_guest.session;
    MsgRolledBackOrder said;
    bool matches;
    int r = body_decode(&said, MsgRolledBackOrder, reply, problem);

    if (r < 0)
        return r;
    session_note(session, session->execution_count, said.epoch);
    session->all->events->back(session, said.execution_count);
    matches = staged_is(rollback, said.checkpoint);
    write_reply(&rollback->reply, &said, matches);
    if (matches)
        begin_files(rollback, checkpoint_files_restore, on_restored);
    else if (rollback->staged)
        begin_files(rollback, checkpoint_files_unstage, on_unstaged);
    else
        answer_client(rollback);
    return 0;
}

static void rollback_refused(Order *order, const Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    rollback->problem = *problem;
    if (rollback->staged)
        begin_files(rollback, checkpoint_files_unstage, on_unstaged);
    else
        order_fail(order, problem);
}

static void rollback_over(Order *order, const Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    if (problem && problem->code == ERR_NO_SUCH_CHECKPOINT && *rollback->files)
        checkpoint_gone(&rollback->target);
    buf_deinit(&rollback->reply);
}

static const OrderOps rollback_ops = {.kind = MSG_ROLLBACK,
                                      .start = start_rollback,
                                      .answer = answer_rollback,
                                      .refused = rollback_refused,
                                      .over = rollback_over};

static void handle_rollback(Front *front, Request *request, const msgpack_object_map *body)
{
    RollbackOrder *rollback = checkpoint_order(front, request, body, sizeof(*rollback), &rollback_ops);

    if (!rollback)
        return;
    order_set_body(&rollback->target.order, MsgRollbackOrder,
                   (&(MsgRollbackOrder){.branch = rollback->target.order.to_guest.session->branch,
                                        .checkpoint = text_of(rollback->target.checkpoint)}));
    order_queue(&rollback->target.order);
}

const Op op_rollback = {.kind = MSG_ROLLBACK, .handle = handle_rollback};

/* ---- drop ---- */

static int answer_drop(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    order_reply(order, NULL);
    return 0;
}

/* Also when the checkpoint was lost before: its files are nobody's then. */
static void drop_over(Order *order, const Problem *problem)
{
    if (!problem || problem->code == ERR_NO_SUCH_CHECKPOINT)
        checkpoint_gone(container_of(order, CheckpointOrder, order));
}

static const OrderOps drop_ops = {.kind = MSG_DROP, .answer = answer_drop, .over = drop_over};

static void handle_drop(Front *front, Request *request, const msgpack_object_map *body)
{
    CheckpointOrder *drop = checkpoint_order(front, request, body, sizeof(*drop), &drop_ops);

    if (!drop)
        return;
    order_set_body(&drop->order, MsgDropOrder, &(MsgDropOrder){.checkpoint = text_of(drop->checkpoint)});
    order_queue(&drop->order);
}

const Op op_drop = {.kind = MSG_DROP, .handle = handle_drop};
