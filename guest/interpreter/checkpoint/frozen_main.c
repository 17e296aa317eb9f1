#include "guest/interpreter/checkpoint/frozen_main.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "guest/interpreter/link.h"
#include "guest/channel.h"
#include "guest/interpreter/checkpoint/keep.h"
#include "guest/interpreter/checkpoint/fork.h"
#include "guest/interpreter/checkpoint/surroundings.h"
#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/memory.h"
#include "guest/interpreter/output.h"
#include "proto/wire.h"

/* For a message: no copy may allocate. */
#define SPACE      1024u
#define OUT(space) ((Buf){.data = (space), .capacity = SPACE, .limit = SPACE})

static int say(Buf *out, int r)
{
    return r < 0 ? r : channel_write(descriptors_channel(), out);
}

/* With what tells how much memory this process holds: nobody else may open it. */
static int send_frozen(uint64_t id)
{
    _cleanup_(closep) int memory = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    uint8_t space[SPACE];
    Buf out = OUT(space);
    int r = channel_say(&out, MSG_FROZEN, id, MsgNothing, &(MsgNothing){0});

    if (r == 0)
        r = channel_send(descriptors_channel(), &out, &memory, memory >= 0);
    return MIN(r, 0);
}

static int say_error(uint64_t id, const char *error)
{
    uint8_t space[SPACE];
    Buf out = OUT(space);

    return say(&out, channel_say(&out, MSG_CHECKPOINTED, id, MsgCheckpointed,
                                 &(MsgCheckpointed){.error = text_of(error)}));
}

/* Sends `saved`: the memory was written, or `error` says why not. */
static int send_saved(uint64_t id, const char *error)
{
    uint8_t space[SPACE];
    Buf out = OUT(space);

    return say(&out, channel_say(&out, MSG_SAVE, id, MsgSavedCell, &(MsgSavedCell){.error = text_of(error)}));
}

int send_checkpointed(uint64_t id, int error, const char *why)
{
    char text[128];

    if (error == 0)
        return say_error(id, NULL);
    if (why[0])
        return say_error(id, why);
    if (error == -EAGAIN)
        snprintf(text, sizeof(text), "no more processes are allowed (pids)");
    else if (error == -EMFILE || error == -ENFILE)
        snprintf(text, sizeof(text), "no more open files are allowed");
    else if (error == -ENOMEM)
        snprintf(text, sizeof(text), "there is not enough memory for another process");
    else
        snprintf(text, sizeof(text), "the interpreter cannot be copied: %s", strerror(-error));
    return say_error(id, text);
}

/* Holds nothing of the interpreter's that others could notice, signals to its group included. */
static int settle(CheckpointInfo *copied, uint64_t id, int channel)
{
    setsid();
    inbox_clear();
    descriptors_detach(channel);
    if (copied->with_threads)
        sinks_leave();
    openfiles_release(&copied->files);
    sharedmemory_leave(&copied->shared);
    /* Once more for root, as a handler of the fork has changed it. */
    oom_score_checkpoint(copied->ends_first);
    int r = fork_adopted(copied->supervisor);
    return r < 0 ? r : send_frozen(id);
}

static int take_frame(const ChannelFrame *frame, MessageKind *ret_kind, Restore *ret)
{
    if (message_peek(frame->data, frame->size, ret_kind, &ret->id) < 0 || frame->size > sizeof(ret->bytes) ||
        (*ret_kind != MSG_RESTORE && *ret_kind != MSG_SAVE))
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

/* As fork_to_supervisor(). One that lacks a thread would wait for it: it is none. */
static pid_t copy_with_threads(void)
{
    int ends[2], r = -ECHILD;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = fork_to_supervisor(true, NULL);
    if (pid == 0)
        make_threads(ends[1]);
    close(ends[1]);
    if (pid > 0 && read(ends[0], &r, sizeof(r)) >= 0)
        pid = r < 0 ? r : pid;
    close(ends[0]);
    return pid;
}

/* In a process that has become the copy. */
static int settle_again(CheckpointInfo *copied, int channel)
{
    inbox_clear();
    surroundings_restore(channel, &copied->notes);
    oom_score_checkpoint(copied->ends_first);
    copied->supervisor = getppid();
    copied->alone = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0); /* as fork_to_supervisor() does */
    return send_frozen(0);
}

/* Into the directory, or the pipe, that came with the message. */
static int save(CheckpointInfo *copied, Restore *asked)
{
    const char *why = "the copy cannot be described";
    int place = take_fd(&asked->fds[0]), channel = -1;
    int r = surroundings_record(place);

    if (r == 0)
        r = keep(place, asked->id == CHANNEL_KEEPS_SHARED, &why, &channel);
    if (r > 0) /* the numbers of descriptors are others' */
        return settle_again(copied, channel);
    close(place);
    return send_saved(asked->id, r < 0 ? why : NULL);
}

/* 0 in the process brought back, its id in the frozen one; a negative errno when the channel is of no use any
 * more. */
static pid_t restore(CheckpointInfo *copied, const Restore *asked)
{
    pid_t pid = -EMFILE;
    int r;

    if (asked->fds[RESTORE_ERR] >= 0)
        pid = copied->with_threads ? copy_with_threads() : fork_to_supervisor(false, NULL);
    if (pid == 0) {
        copied->shared.stays &= !copied->alone;
        return 0;
    }
    copied->alone = false;
    r = pid < 0 ? send_checkpointed(asked->id, pid, "") : 0;
    return r < 0 ? r : MAX(pid, 1);
}

/* As restore(). */
static pid_t serve_one(CheckpointInfo *copied, Restore *ret)
{
    ChannelFrame frame;
    MessageKind kind = 0;
    pid_t pid = inbox_next(&frame, ret->fds);

    if (pid == 0)
        pid = take_frame(&frame, &kind, ret);
    if (pid < 0)
        return pid;
    if (kind == MSG_RESTORE)
        pid = restore(copied, ret);
    else if ((pid = save(copied, ret)) == 0)
        pid = 1;
    if (pid == 0)
        return 0;
    for (size_t i = 0; i < CHANNEL_FDS; i++)
        close_fd(&ret->fds[i]);
    return pid;
}

void frozen_serve(CheckpointInfo *copied, uint64_t id, int channel, Restore *ret)
{
    pid_t pid = 1;

    if (settle(copied, id, channel) < 0)
        _exit(EXIT_FAILURE);
    while (pid > 0)
        pid = serve_one(copied, ret);
    if (pid < 0)
        _exit(pid == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE);
}
