/* Bytes of a hostile interpreter on its channel: frames, displays, questions, the end of a call. Whatever is
 * accepted must make a record, or a message, that passes the reader's checks. */
#include <stdlib.h>

#include "guest/channel.h"
#include "guest/supervisor/call/call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(Call *call, StateChange *change)
{
    _cleanup_(buf_deinit) Buf record = BUF_NULL;
    Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    outcome_settle(&call->outcome, change);
    if (call_record(call, change, 1, NULL, &record) < 0 || record.size > LIMIT_GUEST_FRAME ||
        message_decode(&message, buf_head(&record), record.size, &problem) < 0)
        abort();
    message_deinit(&message);
    state_change_deinit(change);
}

static void take_executed(Call *call, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    StateChange change = STATE_UNCHANGED;
    MsgCellExecuted executed;

    if (executed_decode(&executed, &call->displays, &message->body, &problem) == 0) {
        outcome_finished(&call->outcome, &executed, INTERRUPTION_CAUSE_NONE, 1);
        check_record(call, &change);
        if (outcome_own(&call->outcome, &call->words) < 0)
            abort();
        change.state = STATE_ROLLED_BACK;
    } else {
        outcome_lost(&call->outcome, &(Loss){.fault = problem.text});
        change.state = STATE_LOST;
        reason_set(change.reason, "%s", problem.text);
    }
    check_record(call, &change);
}

static void check_frame(const Buf *frame)
{
    Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    ChannelFrame found;

    if (channel_next(frame, LIMIT_GUEST_FRAME, &found) != 1 || found.used != frame->size ||
        message_decode(&message, found.data, found.size, &problem) < 0)
        abort();
    message_deinit(&message);
}

static void give_answer(uint64_t id, const MsgAnswer *answer)
{
    _cleanup_(buf_deinit) Buf frame = BUF_NULL;

    if (answer_encode(&frame, id, answer) < 0)
        abort();
    check_frame(&frame);
}

static bool take_question(Call *call, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    MsgAsk question;

    if (question_decode(&question, &message->body, &problem) < 0)
        return false;
    const char *why = questions_add(&call->questions, message->id, &question);
    if (why) {
        MsgAnswer refusal = question_refusal(&question, why);

        give_answer(message->id, &refusal);
    }
    if (call->questions.count > LIMIT_ASKS || call->questions.asked > LIMIT_ASKED)
        abort();
    return true;
}

/* As the controller sends it. */
static bool take_answer(Call *call, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    MsgAnswer answer;

    if (answer_decode(&answer, &message->body, &problem) < 0)
        return false;
    questions_take(&call->questions, answer.ask);
    give_answer(message->id, &answer);
    return true;
}

/* Takes a message. Returns whether the interpreter may go on. */
static bool take_message(Call *call, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    EncodedNotes notes _cleanup_(notes_deinit) = NOTES_NULL;
    MsgNamespace namespace;
    MsgPrepared prepared;
    MsgSavedCell moved;
    MsgReady ready;
    MsgDisplay display;

    switch (message->kind) {
    case MSG_DISPLAY:
        if (display_decode(&display, &message->body, &problem) < 0)
            return false;
        displays_add(&call->displays, &display);
        return true;
    case MSG_READY:
        if (body_decode(&ready, MsgReady, &message->body, &problem) == 0)
            notes_add_all(&notes, &ready.not_restored);
        return true;
    case MSG_ASK:
        return take_question(call, message);
    case MSG_ANSWER:
        return take_answer(call, message);
    case MSG_SAVE:
    case MSG_LOAD:
        if (body_decode(&moved, MsgSavedCell, &message->body, &problem) == 0)
            notes_take(&notes, &moved.missing);
        return true;
    case MSG_PREPARED:
        return body_decode(&prepared, MsgPrepared, &message->body, &problem) == 0;
    case MSG_NAMESPACE:
        return body_decode(&namespace, MsgNamespace, &message->body, &problem) == 0;
    default:
        take_executed(call, message);
        return false;
    }
}

static void run(Call *call, Buf *in)
{
    ChannelFrame frame;
    bool going = true;

    while (going && channel_next(in, LIMIT_GUEST_FRAME, &frame) > 0) {
        Message message = MESSAGE_NULL;
        Problem problem = PROBLEM_NULL;

        going =
            message_decode(&message, frame.data, frame.size, &problem) == 0 && take_message(call, &message);
        message_deinit(&message);
        buf_consume(in, frame.used);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OutputLimits limits = {.output = 16, .spill = SPILL_NONE};
    _cleanup_(buf_deinit) Buf in = BUF_NULL;
    const MsgExecute asked = {.branch = NO_UINT,
                              .code = {"", 0},
                              .run_id = {"", 0},
                              .code_hash = NO_UINT,
                              .asks = text_of("count")};
    Call *call = call_new(NULL, 1, &asked, 1, &limits);

    if (!call || buf_append(&in, data, size) < 0)
        abort();
    output_write(&call->output[0], data, size);
    run(call, &in);
    call_free(call);
    return 0;
}
