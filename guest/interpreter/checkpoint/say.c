#include "guest/interpreter/checkpoint/say.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/interpreter/descriptors.h"
#include "proto/wire.h"

static int say(MessageKind kind, uint64_t id, const char *error)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;
    size_t mark;
    int r = channel_frame_begin(&out, &mark);

    if (r < 0)
        return r;
    writer_message(&w, &out, kind, id, kind == MSG_CHECKPOINTED ? 1 : 0);
    if (kind == MSG_CHECKPOINTED) {
        write_key(&w, "error");
        write_text(&w, error);
    }
    r = writer_finish(&w);
    if (r < 0)
        return r;
    channel_frame_end(&out, mark);
    return channel_write(descriptors_channel(), &out);
}

int say_frozen(uint64_t id)
{
    return say(MSG_FROZEN, id, NULL);
}

int say_checkpointed(uint64_t id, int error)
{
    char text[128];

    if (error == 0)
        return say(MSG_CHECKPOINTED, id, NULL);
    if (error == -EAGAIN)
        snprintf(text, sizeof(text), "no more processes are allowed (pids)");
    else if (error == -EMFILE || error == -ENFILE)
        snprintf(text, sizeof(text), "no more open files are allowed");
    else if (error == -ENOMEM)
        snprintf(text, sizeof(text), "there is not enough memory for another process");
    else
        snprintf(text, sizeof(text), "the interpreter cannot be copied: %s", strerror(-error));
    return say(MSG_CHECKPOINTED, id, text);
}
