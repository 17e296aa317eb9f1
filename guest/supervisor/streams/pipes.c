#include "guest/supervisor/streams/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "proto/limits.h"

/* Reads in a turn of the loop. */
#define READS_PER_TURN 4

/* More than the kernel keeps of what is written to a terminal. */
#define TERMINAL_HOLDS (128 << 10)

/* Space that all taps share: there is one thread, and one read at a time. */
static uint8_t space[LIMIT_CHUNK];

void tap_close(Tap *tap)
{
    if (tap->file.loop)
        loop_file_remove(&tap->file);
    close_fd(&tap->fd);
}

/* Reads once. The count, 0 when there is nothing, or when it has come to its end and is closed. A terminal
 * that nobody holds any more reads as an error. */
static size_t read_once(Tap *tap, size_t most)
{
    ssize_t n;

    do
        n = read(tap->fd, space, MIN(most, sizeof(space)));
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        tap->on_data(tap, space, (size_t)n);
        return (size_t)n;
    }
    if (n < 0 && errno == EAGAIN)
        return 0;
    tap_close(tap);
    tap->on_end(tap);
    return 0;
}

static void on_readable(LoopFile *file, uint32_t events)
{
    Tap *tap = container_of(file, Tap, file);

    for (int i = 0; i < READS_PER_TURN && !tap->paused; i++)
        if (read_once(tap, sizeof(space)) < sizeof(space))
            return;
}

int tap_open(Tap *tap, Loop *loop, int fd)
{
    int r;

    tap->loop = loop;
    tap->fd = fd;
    tap->paused = false;
    r = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ? -errno : 0;
    if (r == 0)
        r = loop_file_add(loop, &tap->file, fd, EPOLLIN, on_readable);
    if (r < 0)
        close_fd(&tap->fd);
    return r;
}

int tap_pause(Tap *tap, bool paused)
{
    if (tap->fd < 0 || tap->paused == paused)
        return 0;
    tap->paused = paused;
    /* Removed and not only muted: epoll tells of a closed pipe even then. */
    if (!paused)
        return loop_file_add(tap->loop, &tap->file, tap->fd, EPOLLIN, on_readable);
    loop_file_remove(&tap->file);
    return 0;
}

void tap_drain(Tap *tap)
{
    int waiting = TERMINAL_HOLDS;

    if (tap->fd < 0 || (!tap->terminal && ioctl(tap->fd, FIONREAD, &waiting) < 0))
        return;
    while (waiting > 0 && tap->fd >= 0) {
        size_t n = read_once(tap, (size_t)waiting);

        if (n == 0)
            break;
        waiting -= (int)n;
    }
}

/* ---- writing ---- */

void feed_close(Feed *feed)
{
    if (feed->file.loop)
        loop_file_remove(&feed->file);
    close_fd(&feed->fd);
    buf_deinit(&feed->waiting);
    feed->waiting = BUF_NULL;
}

static void on_writable(LoopFile *file, uint32_t events);

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
        return loop_file_add(feed->loop, &feed->file, feed->fd, EPOLLOUT, on_writable);
    if (!waits && feed->file.loop)
        loop_file_remove(&feed->file);
    return 0;
}

static void on_writable(LoopFile *file, uint32_t events)
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
