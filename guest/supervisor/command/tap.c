#include "guest/supervisor/command/tap.h"

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

static void on_ready(LoopFile *file, uint32_t events)
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
        r = loop_file_add(loop, &tap->file, fd, EPOLLIN, on_ready);
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
        return loop_file_add(tap->loop, &tap->file, tap->fd, EPOLLIN, on_ready);
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
