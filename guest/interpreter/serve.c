#include "guest/interpreter/serve.h"

#include <errno.h>

#include "guest/interpreter/cell.h"
#include "guest/interpreter/checkpoint/checkpoint.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/inbox.h"
#include "guest/interpreter/prepare.h"
#include "guest/interpreter/rest.h"
#include "guest/interpreter/variables.h"

static int handle_execute(const Message *message, int fds[CHANNEL_FDS])
{
    MsgCell request;
    Problem problem = PROBLEM_NULL;
    Buf reply _cleanup_(buf_deinit) = REPLY_NULL;
    int r = body_decode(&request, MsgCell, &message->body, &problem);

    if (r < 0)
        return r;
    r = cell_run(&(CellRequest){message->id, request.execution_count, request.asks, request.script,
                                request.last, request.code},
                 &reply);
    return r < 0 ? r : reply_send(&reply);
}

/* The channel of the copy comes with it. */
static int handle_checkpoint(const Message *message, int fds[CHANNEL_FDS])
{
    MsgFreeze request;
    Problem problem = PROBLEM_NULL;
    int r = body_decode(&request, MsgFreeze, &message->body, &problem);

    return r < 0 ? r : checkpoint_take(message->id, take_fd(&fds[0]), request.automatic);
}

static int handle_namespace(const Message *message, int fds[CHANNEL_FDS])
{
    Problem problem = PROBLEM_NULL;
    MsgNothing nothing;
    int r = body_decode(&nothing, MsgNothing, &message->body, &problem);

    return r < 0 ? r : reply_namespace(message->id);
}

static int handle_prepare(const Message *message, int fds[CHANNEL_FDS])
{
    MsgPrepare request;
    Problem problem = PROBLEM_NULL;
    int r = body_decode(&request, MsgPrepare, &message->body, &problem);

    return r < 0 ? r : prepare(message->id, &request);
}

static int handle_save(const Message *message, int fds[CHANNEL_FDS])
{
    MsgSaveCell request;
    Problem problem = PROBLEM_NULL;
    int r = body_decode(&request, MsgSaveCell, &message->body, &problem);

    return r < 0 ? r : variables_move(message->kind, message->id, &request);
}

/* Its question has been given up. */
static int handle_answer(const Message *message, int fds[CHANNEL_FDS])
{
    return 0;
}

/* Each takes the descriptors it uses. A negative errno ends the interpreter. */
static const struct {
    MessageKind kind;
    int (*handle)(const Message *message, int fds[CHANNEL_FDS]);
} handlers[] = {
    {MSG_EXECUTE, handle_execute}, {MSG_CHECKPOINT, handle_checkpoint}, {MSG_NAMESPACE, handle_namespace},
    {MSG_ANSWER, handle_answer},   {MSG_PREPARE, handle_prepare},       {MSG_SAVE, handle_save},
    {MSG_LOAD, handle_save},
};

static int serve_frame(const ChannelFrame *frame, int fds[CHANNEL_FDS])
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    int r = message_decode(&message, frame->data, frame->size, &problem);

    if (r < 0)
        return r;
    /* New standard output and standard error may come with any message but that which brings a channel. */
    if (message.kind != MSG_CHECKPOINT)
        descriptors_replace((int[]){take_fd(&fds[0]), take_fd(&fds[1])});
    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
        if (handlers[i].kind == message.kind)
            return handlers[i].handle(&message, fds);
    }
    return -EPROTO;
}

int serve(void)
{
    ChannelFrame frame;
    int fds[CHANNEL_FDS], r;

    do {
        rest();
        PyThreadState *saved = PyEval_SaveThread();
        r = inbox_next(&frame, fds);
        PyEval_RestoreThread(saved);
        if (r < 0)
            return r;
        r = serve_frame(&frame, fds);
        for (size_t i = 0; i < CHANNEL_FDS; i++)
            close_fd(&fds[i]);
    } while (r == 0);
    return r;
}
