#include "guest/interpreter/serve.h"

#include <errno.h>

#include "guest/interpreter/cell.h"
#include "guest/interpreter/descriptors.h"

typedef struct Execute {
    Text code, run_id;
    double timeout;
    bool stream;
    uint64_t execution_count;
} Execute;

static const Field execute_fields[] = {
    FIELD(FIELD_TEXT, Execute, code, true, LIMIT_CODE),
    FIELD(FIELD_DOUBLE, Execute, timeout, false, 0),
    FIELD(FIELD_BOOL, Execute, stream, false, 0),
    FIELD(FIELD_TEXT, Execute, run_id, false, LIMIT_RUN_ID),
    FIELD(FIELD_UINT, Execute, execution_count, true, 0),
};

static int execute(const Message *message)
{
    Execute request = {0};
    Problem problem = PROBLEM_NULL;
    Outcome outcome _cleanup_(outcome_deinit) = {0};

    if (message->kind != MSG_EXECUTE)
        return -EPROTO;
    int r = fields_decode(&request, execute_fields, ARRAY_SIZE(execute_fields), &message->body, &problem);
    if (r < 0)
        return r;
    cell_run(&(Cell){message->id, request.execution_count, request.code}, &outcome);
    return reply_executed(message->id, &outcome);
}

static int serve_frame(const Buf *frame)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    int r = message_decode(&message, buf_head(frame), frame->size, &problem);

    return r < 0 ? r : execute(&message);
}

int serve(void)
{
    Buf frame _cleanup_(buf_deinit) = {.limit = LIMIT_GUEST_FRAME};
    int fds[CHANNEL_FDS], r;

    do {
        PyThreadState *saved = PyEval_SaveThread();
        r = channel_read_message(descriptors_channel(), &frame, fds);
        PyEval_RestoreThread(saved);
        if (r < 0)
            return r;
        descriptors_replace(fds);
        r = serve_frame(&frame);
    } while (r == 0);
    return r;
}
