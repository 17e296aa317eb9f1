#include "guest/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "guest/files/program.h"
#include "proto/base/log.h"

/* ---- answers ---- */

static int send_out(Files *files)
{
    int r = channel_write(CHANNEL_FD, &files->out);

    if (r < 0)
        loop_stop(files->loop, 0); /* the supervisor is gone */
    return 0;
}

int files_reply_with(Files *files, uint64_t id, const Schema *schema, const void *body)
{
    int r = channel_append(&files->out, MSG_REPLY, id, schema, body);

    return r < 0 ? r : send_out(files);
}

int files_reply_empty(Files *files, uint64_t id)
{
    return files_reply(files, id, MsgNothing, &(MsgNothing){0});
}

void files_fail(Files *files, uint64_t id, int error, Text path)
{
    const MsgFileFailed failed = {.error = (uint64_t)-error, .path = path};

    if (channel_say(&files->out, MSG_FILE_FAILED, id, MsgFileFailed, &failed) == 0)
        send_out(files);
    else
        loop_stop(files->loop, 0); /* without memory for that nothing can be done here */
}

int files_blame(Files *files, const char *path, int error)
{
    size_t n = MIN(strlen(path), sizeof(files->blamed) - 1);

    memcpy(files->blamed, path, n);
    files->blamed[n] = '\0';
    return error;
}

/* ---- questions ---- */

/* The path that a question is about. */
static Text path_of(const MsgFileAsk *ask, FileOp op)
{
    switch (op) {
    case FILE_STAT:
        return ask->stat.path;
    case FILE_LIST:
        return ask->list.path;
    case FILE_READ:
        return ask->read.path;
    case FILE_WRITE:
        return ask->write.path;
    case FILE_MKDIR:
        return ask->mkdir.path;
    case FILE_MOVE:
        return ask->move.old;
    case FILE_REMOVE:
        return ask->remove.path;
    case FILE_FETCH:
        return ask->fetch.path;
    case FILE_STORE:
        return ask->store.path;
    case FILE_WATCH:
        return ask->watch.path;
    default:
        return (Text){0};
    }
}

static int answer(Files *files, uint64_t id, const MsgFileAsk *ask, FileOp op)
{
    switch (op) {
#define FILE_OP(member, name, reply)                                                                         \
    case FILE_##name:                                                                                        \
        return files_##member(files, id, &ask->member);
#include "proto/file_ops.def"
#undef FILE_OP
    case FILE_OPS:
        break;
    }
    return -EINVAL;
}

static void handle(Files *files, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    MsgFileAsk ask;
    int op = message->kind == MSG_FILES ? body_decode(&ask, MsgFileAsk, &message->body, &problem) : -EPROTO;
    int r;

    if (op == 0)
        op = file_ask_op(&ask, &problem);
    if (op < 0) {
        files_fail(files, message->id, -EINVAL, (Text){0});
        return;
    }
    files->blamed[0] = '\0';
    r = answer(files, message->id, &ask, (FileOp)op);
    if (r < 0)
        files_fail(files, message->id, r,
                   files->blamed[0] ? text_of(files->blamed) : path_of(&ask, (FileOp)op));
}

/* ---- the channel ---- */

static void take_messages(Files *files)
{
    ChannelFrame frame;
    int fds[CHANNEL_FDS];

    while (channel_reader_take(&files->reader, &frame, fds) > 0) {
        Message message _cleanup_(message_deinit) = MESSAGE_NULL;
        Problem problem = PROBLEM_NULL;

        for (size_t i = 0; i < CHANNEL_FDS; i++)
            close_fd(&fds[i]);
        if (message_decode(&message, frame.data, frame.size, &problem) < 0) {
            log_error("message refused", "reason=%s", problem.text);
            loop_stop(files->loop, 1);
            return;
        }
        handle(files, &message);
    }
}

static void on_channel_ready(LoopFile *file, uint32_t events)
{
    Files *files = container_of(file, Files, file);
    int r = channel_reader_fill(&files->reader, CHANNEL_FD);

    if (r == 0)
        take_messages(files);
    else if (r != -EINTR)
        loop_stop(files->loop, 0);
}

int files_main(void)
{
    _cleanup_(loop_freep) Loop *loop = NULL;
    Files files = {.reader = CHANNEL_READER_NULL};
    int r = loop_new(&loop);

    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is EFBIG */
    signal(SIGPIPE, SIG_IGN);
    umask(022);
    files.loop = loop;
    if (r == 0)
        r = loop_file_add(loop, &files.file, CHANNEL_FD, EPOLLIN, on_channel_ready);
    if (r == 0)
        r = loop_run(loop);
    /* All else goes with the process. */
    return r < 0 ? 1 : r;
}
