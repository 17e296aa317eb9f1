#include "guest/interpreter/checkpoint/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/interpreter/descriptors.h"

/* For a message: no copy may allocate. */
#define SPACE      1024u
#define OUT(space) ((Buf){.data = (space), .capacity = SPACE, .limit = SPACE})

static int say(Buf *out, int r)
{
    return r < 0 ? r : channel_write(descriptors_channel(), out);
}

int say_frozen(uint64_t id)
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

int say_saved(uint64_t id, const char *error)
{
    uint8_t space[SPACE];
    Buf out = OUT(space);

    return say(&out, channel_say(&out, MSG_SAVE, id, MsgSavedCell, &(MsgSavedCell){.error = text_of(error)}));
}

int say_checkpointed(uint64_t id, int error, const char *why)
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
