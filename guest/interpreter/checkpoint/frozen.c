#include "guest/interpreter/checkpoint/frozen.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "guest/interpreter/checkpoint/say.h"
#include "guest/interpreter/checkpoint/sibling.h"
#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/volunteer.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/inbox.h"
#include "guest/interpreter/sink.h"
#include "proto/wire.h"

/* Holds nothing of the interpreter's that others could notice, signals to its group included. */
static int settle(Copied *copied, uint64_t id, int channel)
{
    setsid();
    inbox_clear();
    descriptors_detach(channel);
    if (copied->with_threads)
        sinks_leave();
    openfiles_release(&copied->files);
    sharedmemory_leave(&copied->shared, &copied->notes);
    volunteer_checkpoint(
        copied->automatic); /* once more for root, in which a handler of the fork has changed it */
    int r = sibling_adopted(copied->supervisor);
    return r < 0 ? r : say_frozen(id);
}

static int take_restore(const ChannelFrame *frame, Restore *ret)
{
    MessageKind kind;

    if (message_peek(frame->data, frame->size, &kind, &ret->id) < 0 || kind != MSG_RESTORE ||
        frame->size > sizeof(ret->bytes))
        return -EPROTO;
    memcpy(ret->bytes, frame->data, frame->size);
    ret->size = frame->size;
    return 0;
}

/* In a copy of the copy: says how it went, and ends where it has not all threads. */
static void make_threads(int tell)
{
    int r = threads_make(NULL);

    if (write(tell, &r, sizeof(r)) < 0 || r < 0)
        _exit(EXIT_FAILURE);
}

/* As sibling_fork(). One that lacks a thread would wait for it: it is none. */
static pid_t copy_with_threads(void)
{
    int ends[2], r = -ECHILD;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = sibling_fork(true, NULL);
    if (pid == 0)
        make_threads(ends[1]);
    close(ends[1]);
    if (pid > 0 && read(ends[0], &r, sizeof(r)) >= 0)
        pid = r < 0 ? r : pid;
    close(ends[0]);
    return pid;
}

/* 0 in the process brought back, its id in the frozen one; a negative errno when the channel is of no use any
 * more. */
static pid_t serve_one(const Copied *copied, Restore *ret)
{
    ChannelFrame frame;
    int r = inbox_next(&frame, ret->fds);

    if (r == 0)
        r = take_restore(&frame, ret);
    if (r < 0)
        return r;

    pid_t pid = -EMFILE;

    if (ret->fds[RESTORE_ERR] >= 0)
        pid = copied->with_threads ? copy_with_threads() : sibling_fork(false, NULL);
    if (pid == 0)
        return 0;
    for (size_t i = 0; i < CHANNEL_FDS; i++)
        close_fd(&ret->fds[i]);
    if (pid < 0 && (r = say_checkpointed(ret->id, pid, "")) < 0)
        return r;
    return MAX(pid, 1);
}

void frozen_serve(Copied *copied, uint64_t id, int channel, Restore *ret)
{
    pid_t pid = 1;

    if (settle(copied, id, channel) < 0)
        _exit(EXIT_FAILURE);
    while (pid > 0)
        pid = serve_one(copied, ret);
    if (pid < 0)
        _exit(pid == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE);
}
