#include "guest/interpreter/checkpoint/frozen.h"

#include <errno.h>

#include "guest/interpreter/checkpoint/say.h"
#include "guest/interpreter/checkpoint/sharedmemory.h"
#include "guest/interpreter/checkpoint/sibling.h"
#include "guest/interpreter/volunteer.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/inbox.h"
#include "proto/schema.h"

/* Holds nothing of the interpreter's that others could notice, signals to its group included. */
static int settle(Copied *copied, uint64_t id, int channel)
{
    setsid();
    inbox_clear();
    descriptors_detach(channel);
    openfiles_release(&copied->files, &copied->notes);
    volunteer_checkpoint(copied->automatic);
    int r = sibling_adopted(copied->supervisor);
    return r < 0 ? r : say_frozen(id);
}

static int decode(const ChannelFrame *frame, Restore *ret)
{
    MsgRestore said;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    int r = message_decode(&message, frame->data, frame->size, &problem);

    if (r < 0)
        return r;
    if (message.kind != MSG_RESTORE)
        return -EPROTO;
    r = body_decode(&said, MsgRestore, &message.body, &problem);
    ret->id = message.id;
    ret->branched = r == 0 && said.branched;
    return r;
}

/* 0 in the process brought back, its id in the frozen one; a negative errno when the channel is of no use any
 * more. */
static pid_t serve_one(Restore *ret)
{
    ChannelFrame frame;
    int r = inbox_next(&frame, ret->fds);

    if (r == 0)
        r = decode(&frame, ret);
    if (r < 0)
        return r;

    pid_t pid = ret->fds[RESTORE_ERR] < 0 ? -EMFILE : sibling_fork();

    if (pid == 0)
        return 0;
    for (size_t i = 0; i < CHANNEL_FDS; i++)
        close_fd(&ret->fds[i]);
    if (pid < 0 && (r = say_checkpointed(ret->id, pid)) < 0)
        return r;
    return MAX(pid, 1);
}

void frozen_serve(Copied *copied, uint64_t id, int channel, Restore *ret)
{
    pid_t pid = 1;

    if (settle(copied, id, channel) < 0)
        _exit(EXIT_FAILURE);
    sharedmemory_note(&copied->notes); /* slow, and nobody waits here */
    while (pid > 0)
        pid = serve_one(ret);
    if (pid < 0)
        _exit(pid == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE);
}
