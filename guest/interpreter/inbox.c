#include "guest/interpreter/inbox.h"

#include <errno.h>
#include <poll.h>

#include "guest/interpreter/descriptors.h"

/* More than channel_reader_fill() asks for at the beginning of a message. */
#define RESERVE (64u << 10)

static ChannelReader reader = CHANNEL_READER_NULL;

int inbox_next(ChannelFrame *ret, int fds[CHANNEL_FDS])
{
    return channel_reader_next(&reader, descriptors_channel(), ret, fds);
}

static int take_message(ChannelFrame *ret)
{
    int fds[CHANNEL_FDS];
    int r = channel_reader_take(&reader, ret, fds);

    for (size_t i = 0; r > 0 && i < CHANNEL_FDS; i++)
        close_fd(&fds[i]);
    return r;
}

int inbox_wait(ChannelFrame *ret, int wake, const sigset_t *mask)
{
    struct pollfd files[] = {{.fd = descriptors_channel(), .events = POLLIN}, {.fd = wake, .events = POLLIN}};
    int r;

    while ((r = take_message(ret)) == 0) {
        if (ppoll(files, ARRAY_SIZE(files), NULL, mask) < 0)
            return -errno;
        if (files[1].revents)
            return -ECANCELED;
        r = channel_reader_fill(&reader, descriptors_channel());
        if (r < 0)
            return r;
    }
    return MIN(r, 0);
}

void inbox_reserve(void)
{
    buf_reserve(&reader.in, RESERVE);
}

bool inbox_is_empty(void)
{
    return reader.in.size == reader.used;
}

void inbox_clear(void)
{
    channel_reader_clear(&reader);
}
