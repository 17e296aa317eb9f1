/* checkpoint, checkpoints, drop, rollback */
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"

/* checkpoint */

static void checkpoint_step(Supervisor *supervisor, Order *order)
{
    Checkpoints *set = &supervisor->checkpoints;
    LinkFrame frame;

    if (order_take_checkpoint(supervisor, order->branch, CHECKPOINT_BY_HAND, false) <= 0)
        return;
    if (order_answer(supervisor, &frame, order->id, 2) == 0) {
        write_key(&frame.writer, "checkpoint");
        checkpoint_write_row(&frame.writer, order->checkpoint);
        write_key(&frame.writer, "dropped");
        checkpoints_write_evicted(&frame.writer, set);
        link_end(&supervisor->controller.link, &frame);
    }
    order_done(supervisor);
}

static bool is_name(Text text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

        if (!plain && (i == 0 || (c != '.' && c != '_' && c != '-')))
            return false;
    }
    return text.size > 0;
}

/* Such a name could be mistaken for another one's id. */
static bool is_id(Text text)
{
    size_t digits = 0;

    while (1 + digits < text.size && text.data[1 + digits] >= '0' && text.data[1 + digits] <= '9')
        digits++;
    return text.data[0] == 'c' && digits > 0 && 1 + digits == text.size;
}

static int check_name(Supervisor *supervisor, Text name, Problem *problem)
{
    if (!is_name(name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "`name` is 1 to %u of A-Z a-z 0-9 . _ -, beginning with a letter or digit",
                           LIMIT_SESSION_NAME);
    if (is_id(name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` looks like the id of a checkpoint");
    if (checkpoints_find(&supervisor->checkpoints, name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a checkpoint named '%.*s' is kept already; drop it first", (int)name.size,
                           name.data);
    return 0;
}

int order_checkpoint(Supervisor *supervisor, const Message *message, Problem *problem)
{
    typedef struct Body {
        uint64_t branch;
        Text name;
    } Body;
    static const Field fields[] = {
        FIELD(FIELD_UINT, Body, branch, true, 0),
        FIELD(FIELD_TEXT, Body, name, false, LIMIT_SESSION_NAME),
    };
    Body body = {0};
    Branch *branch = NULL;
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, body.branch, problem);
    if (r == 0 && body.name.data)
        r = check_name(supervisor, body.name, problem);
    if (r == 0)
        r = order_begin(supervisor, message, checkpoint_step, problem);
    if (r < 0)
        return r;
    supervisor->order.branch = branch;
    if (body.name.data)
        memcpy(supervisor->order.name, body.name.data, body.name.size);
    return 0;
}

/* checkpoints */

int order_checkpoints(Supervisor *supervisor, const Message *message, Problem *problem)
{
    LinkFrame frame;
    int r = fields_decode(NULL, NULL, 0, &message->body, problem);

    if (r < 0 || order_answer(supervisor, &frame, message->id, 1) < 0)
        return r;
    checkpoints_measure(&supervisor->checkpoints);
    write_key(&frame.writer, "checkpoints");
    checkpoints_write(&frame.writer, &supervisor->checkpoints);
    link_end(&supervisor->controller.link, &frame);
    return 0;
}

/* drop */

int order_drop(Supervisor *supervisor, const Message *message, Problem *problem)
{
    typedef struct Body {
        Text checkpoint;
    } Body;
    static const Field fields[] = {FIELD(FIELD_TEXT, Body, checkpoint, true, LIMIT_SESSION_NAME)};
    Checkpoint *checkpoint = NULL;
    Body body = {0};
    LinkFrame frame;
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r == 0)
        r = order_find_checkpoint(&checkpoint, supervisor, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(supervisor, message, NULL, problem);
    if (r < 0)
        return r;
    checkpoint_drop(checkpoint, NULL);
    if (order_answer(supervisor, &frame, message->id, 0) == 0)
        link_end(&supervisor->controller.link, &frame);
    return 0;
}

/* rollback */

static void rollback_fail(Supervisor *supervisor, Order *order)
{
    const Fate *fate = &order->branch->untold;
    const char *why = order->trouble[0] ? order->trouble : "no copy of it could be made";

    if (fate->state == STATE_ROLLED_BACK)
        order_refuse(
            supervisor, ERR_CHECKPOINT_FAILED,
            "the checkpoint could not be restored: %s; the variables are as they were after call %" PRIu64,
            why, fate->execution_count);
    else
        order_refuse(supervisor, ERR_CHECKPOINT_FAILED,
                     "the checkpoint could not be restored: %s; the variables are lost (%s)", why,
                     fate->reason);
}

/* The branch's variables are where it went: there, or somewhere else because that could not be had. */
static void rollback_finish(Supervisor *supervisor, Order *order)
{
    Branch *branch = order->branch;
    LinkFrame frame;

    if (branch->untold.state != STATE_ROLLED_BACK || branch->untold.checkpoint != order->number) {
        rollback_fail(supervisor, order);
        return;
    }
    if (order_answer(supervisor, &frame, order->id, 4) == 0) {
        write_key(&frame.writer, "checkpoint");
        checkpoint_write_number(&frame.writer, order->number);
        write_key(&frame.writer, "execution_count");
        write_uint(&frame.writer, branch->untold.execution_count);
        write_key(&frame.writer, "epoch");
        write_uint(&frame.writer, branch->epoch);
        write_key(&frame.writer, "not_restored");
        notes_write(&branch->untold.not_restored, &frame.writer);
        link_end(&supervisor->controller.link, &frame);
    }
    fate_deinit(&branch->untold);
    order_done(supervisor);
}

static void rollback_step(Supervisor *supervisor, Order *order)
{
    if (order->branch->recovery.active)
        return;
    if (order->asked) {
        rollback_finish(supervisor, order);
        return;
    }
    if (!order->checkpoint) {
        order_refuse(supervisor, ERR_NO_SUCH_CHECKPOINT, "the checkpoint is gone: %s", order->trouble);
        return;
    }
    order->asked = true;
    order->number = order->checkpoint->number;
    branch_go_back(order->branch, order->checkpoint);
}

int order_rollback(Supervisor *supervisor, const Message *message, Problem *problem)
{
    typedef struct Body {
        uint64_t branch;
        Text checkpoint;
    } Body;
    static const Field fields[] = {
        FIELD(FIELD_UINT, Body, branch, true, 0),
        FIELD(FIELD_TEXT, Body, checkpoint, true, LIMIT_SESSION_NAME),
    };
    Checkpoint *checkpoint = NULL;
    Branch *branch = NULL;
    Body body = {0};
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, body.branch, problem);
    if (r == 0)
        r = order_find_checkpoint(&checkpoint, supervisor, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(supervisor, message, rollback_step, problem);
    if (r < 0)
        return r;
    supervisor->order.branch = branch;
    supervisor->order.checkpoint = checkpoint;
    return 0;
}
