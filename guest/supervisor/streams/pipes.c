#include "guest/supervisor/streams/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "proto/limits.h"

int pipe_for_program(int ret[static 2], int given)
{
    if (pipe2(ret, O_CLOEXEC) < 0)
        return -errno;
    fchmod(ret[given], S_IRUSR | S_IWUSR | (given == 0 ? S_IROTH : S_IWOTH));
    return 0;
}

/* ---- reading ---- */

/* Reads in a turn of the loop. */
#define READS_PER_TURN 4

/* The size of a pipe, and of one that comes faster than it is read. The latter lasts until
 * pipe_reader_narrow(), as the kernel limits what all pipes of a user hold together. */
#define PIPE_USUAL LIMIT_CHUNK
#define PIPE_WIDE  (READS_PER_TURN * LIMIT_CHUNK)

/* More than the kernel keeps of what is written to a terminal. */
#define TERMINAL_HOLDS (128 << 10)

/* Bytes that are recalled at most: a read of all the others has filled the space. */
#define RECALLED_MAXIMUM 64

/* Space that all readers share: there is one thread, and one read at a time. */
static uint8_t space[LIMIT_CHUNK];

void pipe_reader_close(PipeReader *reader)
{
    if (reader->file.loop)
        loop_file_remove(&reader->file);
    close_fd(&reader->fd);
}

int pipe_reader_release(PipeReader *reader)
{
    if (reader->file.loop)
        loop_file_remove(&reader->file);
    return take_fd(&reader->fd);
}

/* Reads once. The count, 0 when there is nothing, or when it has come to its end and is closed. A terminal
 * that nobody holds any more reads as an error. */
static size_t read_once(PipeReader *reader, size_t most)
{
    size_t recalled = reader->recall ? reader->recall(reader, space) : 0;
    bool over;
    ssize_t n;

    do
        n = read(reader->fd, space + recalled, MIN(most, sizeof(space) - recalled));
    while (n < 0 && errno == EINTR);
    over = n == 0 || (n < 0 && errno != EAGAIN);
    n = MAX(n, 0);
    if (recalled > 0 || n > 0)
        reader->on_data(reader, space, recalled + (size_t)n);
    if (over) {
        pipe_reader_close(reader);
        reader->on_end(reader);
    }
    return (size_t)n;
}

static void set_wide(PipeReader *reader, bool wide)
{
    if (reader->fd < 0 || reader->wide == wide)
        return;
    if (fcntl(reader->fd, F_SETPIPE_SZ, wide ? PIPE_WIDE : PIPE_USUAL) >= 0)
        reader->wide = wide;
}

void pipe_reader_narrow(PipeReader *reader)
{
    set_wide(reader, false);
}

static void on_readable(LoopFile *file, uint32_t events)
{
    PipeReader *reader = container_of(file, PipeReader, file);
    size_t total = 0;

    for (int i = 0; i < READS_PER_TURN && !reader->paused; i++) {
        size_t n = read_once(reader, sizeof(space));

        if (n == 0)
            return; /* it may be freed by now */
        total += n;
        if (reader->widens && total > PIPE_USUAL)
            set_wide(reader, true);
        if (n + RECALLED_MAXIMUM <= sizeof(space))
            return;
    }
}

static int watch_reader(PipeReader *reader)
{
    return loop_file_add(reader->loop, &reader->file, reader->fd, EPOLLIN, on_readable);
}

int pipe_reader_open(PipeReader *reader, Loop *loop, int fd)
{
    int r;

    reader->loop = loop;
    reader->fd = fd;
    reader->paused = reader->wide = false;
    r = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ? -errno : watch_reader(reader);
    if (r < 0)
        close_fd(&reader->fd);
    return r;
}

int pipe_reader_pause(PipeReader *reader, bool paused)
{
    if (reader->fd < 0 || reader->paused == paused)
        return 0;
    reader->paused = paused;
    /* Removed and not only muted: epoll tells of a closed pipe even then. */
    if (!paused)
        return watch_reader(reader);
    loop_file_remove(&reader->file);
    return 0;
}

/* Returns whether all that was in it at this moment has been read. */
static bool read_waiting(PipeReader *reader, bool even_paused)
{
    int waiting = TERMINAL_HOLDS;

    if (reader->fd < 0 || (!reader->terminal && ioctl(reader->fd, FIONREAD, &waiting) < 0))
        return true;
    while (waiting > 0 && reader->fd >= 0 && (even_paused || !reader->paused)) {
        size_t n = read_once(reader, (size_t)waiting);

        if (n == 0)
            break;
        waiting -= (int)n;
    }
    return waiting <= 0;
}

void pipe_reader_drain(PipeReader *reader)
{
    read_waiting(reader, true);
}

bool pipe_reader_catch_up(PipeReader *reader)
{
    return read_waiting(reader, false) && !reader->paused;
}

/* ---- writing ---- */

void pipe_writer_close(PipeWriter *writer)
{
    if (writer->file.loop)
        loop_file_remove(&writer->file);
    close_fd(&writer->fd);
    buf_deinit(&writer->waiting);
    writer->waiting = BUF_NULL;
}

static void on_writable(LoopFile *file, uint32_t events);

/* Writes what it can. A reader that is gone is no error: what it has not read is dropped. */
static void push(PipeWriter *writer)
{
    while (writer->waiting.size > 0) {
        ssize_t n = write(writer->fd, buf_head(&writer->waiting), writer->waiting.size);

        if (n > 0)
            buf_consume(&writer->waiting, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            break;
        else if (n == 0 || errno != EINTR) {
            writer->ends = false; /* closed before all has been taken */
            pipe_writer_close(writer);
            return;
        }
    }
    if (writer->waiting.size == 0 && writer->ends)
        pipe_writer_close(writer);
}

/* Waits for room, or no longer. */
static int watch_writer(PipeWriter *writer)
{
    bool waits = writer->fd >= 0 && writer->waiting.size > 0;

    if (waits && !writer->file.loop)
        return loop_file_add(writer->loop, &writer->file, writer->fd, EPOLLOUT, on_writable);
    if (!waits && writer->file.loop)
        loop_file_remove(&writer->file);
    return 0;
}

static void on_writable(LoopFile *file, uint32_t events)
{
    PipeWriter *writer = container_of(file, PipeWriter, file);

    push(writer);
    watch_writer(writer);
    if (writer->on_taken)
        writer->on_taken(writer);
}

int pipe_writer_open(PipeWriter *writer, Loop *loop, int fd)
{
    writer->loop = loop;
    writer->fd = fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0) {
        int r = -errno;
        close_fd(&writer->fd);
        return r;
    }
    return 0;
}

int pipe_writer_write(PipeWriter *writer, const void *bytes, size_t n)
{
    int r;

    if (!pipe_writer_is_open(writer))
        return -EPIPE;
    r = buf_append(&writer->waiting, bytes, n);
    if (r < 0)
        return r;
    push(writer);
    return watch_writer(writer);
}

void pipe_writer_end(PipeWriter *writer)
{
    if (writer->fd < 0)
        return;
    writer->ends = true;
    push(writer);
}
