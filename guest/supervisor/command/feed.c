#include "guest/supervisor/command/feed.h"

#include <errno.h>
#include <fcntl.h>

void feed_close(Feed *feed)
{
    if (feed->file.loop)
        loop_file_remove(&feed->file);
    close_fd(&feed->fd);
    buf_deinit(&feed->waiting);
    feed->waiting = BUF_NULL;
}

static void on_ready(LoopFile *file, uint32_t events);

/* Writes what it can. A reader that is gone is no error: what it has not read is dropped. */
static void push(Feed *feed)
{
    while (feed->waiting.size > 0) {
        ssize_t n = write(feed->fd, buf_head(&feed->waiting), feed->waiting.size);

        if (n > 0)
            buf_consume(&feed->waiting, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            break;
        else if (n == 0 || errno != EINTR) {
            feed->ends = false; /* closed before all has been taken */
            feed_close(feed);
            return;
        }
    }
    if (feed->waiting.size == 0 && feed->ends)
        feed_close(feed);
}

/* Waits for room, or no longer. */
static int watch(Feed *feed)
{
    bool waits = feed->fd >= 0 && feed->waiting.size > 0;

    if (waits && !feed->file.loop)
        return loop_file_add(feed->loop, &feed->file, feed->fd, EPOLLOUT, on_ready);
    if (!waits && feed->file.loop)
        loop_file_remove(&feed->file);
    return 0;
}

static void on_ready(LoopFile *file, uint32_t events)
{
    Feed *feed = container_of(file, Feed, file);

    push(feed);
    watch(feed);
    if (feed->on_taken)
        feed->on_taken(feed);
}

int feed_open(Feed *feed, Loop *loop, int fd)
{
    feed->loop = loop;
    feed->fd = fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
        int r = -errno;
        close_fd(&feed->fd);
        return r;
    }
    return 0;
}

int feed_write(Feed *feed, const void *bytes, size_t n)
{
    int r;

    if (!feed_is_open(feed))
        return -EPIPE;
    r = buf_append(&feed->waiting, bytes, n);
    if (r < 0)
        return r;
    push(feed);
    return watch(feed);
}

void feed_end(Feed *feed)
{
    if (feed->fd < 0)
        return;
    feed->ends = true;
    push(feed);
}
