#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/checkpoint/openfiles_kinds.h"
#include "guest/interpreter/checkpoint/no_malloc.h"

/* As much as a pipe can have. */
#define PENDING_MAX (1 << 20)

/* Recording */

static int option(int fd, int name)
{
    int value = 0;
    socklen_t size = sizeof(value);

    getsockopt(fd, SOL_SOCKET, name, &value, &size);
    return value;
}

static bool is_connected(int fd)
{
    struct pollfd state = {.fd = fd};

    return poll(&state, 1, 0) == 0 || !(state.revents & POLLHUP);
}

/* The process that made a pair of sockets of which this may be one: they have no names. */
static pid_t pair_creator(const OpenFile *file)
{
    struct sockaddr_un name;
    socklen_t size = sizeof(name);
    struct ucred creator = {0};

    if (file->socket.domain != AF_UNIX || file->socket.listens || !is_connected(file->fd) ||
        getsockname(file->fd, (struct sockaddr *)&name, &size) < 0 || size > sizeof(name.sun_family))
        return 0;
    size = sizeof(creator);
    getsockopt(file->fd, SOL_SOCKET, SO_PEERCRED, &creator, &size);
    return creator.pid;
}

/* Reads all of `size` bytes of a pipe, or nothing; the pipe keeps them. */
static ssize_t peek_pipe(int fd, uint8_t *bytes, size_t size)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    fcntl(ends[1], F_SETPIPE_SZ, fcntl(fd, F_GETPIPE_SZ));
    ssize_t n = tee(fd, ends[1], size, SPLICE_F_NONBLOCK);
    n = n == (ssize_t)size ? read(ends[0], bytes, size) : -1;
    close(ends[0]);
    close(ends[1]);
    return n;
}

static ssize_t peek(const OpenFile *file, uint8_t *bytes, size_t size)
{
    if (file->kind == OPEN_PIPE)
        return peek_pipe(file->fd, bytes, size);
    return recv(file->fd, bytes, size, MSG_PEEK | MSG_DONTWAIT);
}

static void note_loss(const OpenFile *file, size_t size, Notes *notes)
{
    notes_add(notes, "the %zu bytes that were in the %s on descriptor %d are lost", size,
              file->kind == OPEN_PIPE ? "pipe" : "local connection", file->fd);
}

static void copy_pending(OpenFile *file, Notes *notes)
{
    int waiting = 0;

    if (ioctl(file->fd, FIONREAD, &waiting) < 0 || waiting <= 0)
        return;

    size_t size = (size_t)waiting;
    uint8_t *bytes = size <= PENDING_MAX ? pages_room(NULL, 0, size) : NULL;
    if (!bytes || peek(file, bytes, size) != (ssize_t)size) {
        pages_free(bytes, 1, size);
        note_loss(file, size, notes);
        return;
    }
    file->pending = bytes;
    file->pending_size = size;
}

static void record_socket(OpenFile *file, Notes *notes)
{
    file->socket.domain = option(file->fd, SO_DOMAIN);
    file->socket.type = option(file->fd, SO_TYPE);
    file->socket.listens = option(file->fd, SO_ACCEPTCONN);
    file->socket.creator = pair_creator(file);
    if (file->socket.creator && file->socket.type == SOCK_STREAM)
        copy_pending(file, notes);
}

void ends_record(OpenFile *file, Notes *notes)
{
    if (file->kind == OPEN_SOCKET)
        record_socket(file, notes);
    else if ((file->flags & O_ACCMODE) == O_RDONLY)
        copy_pending(file, notes);
}

void ends_deinit(OpenFile *file)
{
    pages_free(file->pending, 1, file->pending_size);
}

/* Restoring */

/* Under all the numbers from items[i] to items[end]. */
static void place_all(OpenFiles *files, size_t i, size_t end, int fd)
{
    for (; i < end; i++) {
        OpenFile *file = &files->items[i];

        dup3(fd, file->fd, file->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0);
        fcntl(file->fd, F_SETFL, file->flags & (O_NONBLOCK | O_ASYNC | O_DIRECT));
    }
}

/* Fills a pipe with the bytes that were read from one of its ends; all ends have the same. */
static void fill_pipe(int to, const OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    const OpenFile *file = &files->items[i];

    while (++i < end && file->pending_size == 0)
        file = &files->items[i];
    if (file->pending_size == 0)
        return;
    fcntl(to, F_SETPIPE_SZ, file->pending_size);
    if (write(to, file->pending, file->pending_size) != (ssize_t)file->pending_size)
        note_loss(file, file->pending_size, notes);
}

static void restore_pipe(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    size_t writers = 0, n = end - i;
    int ends[2], first = files->items[i].fd;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        ends[0] = ends[1] = -1;
    fill_pipe(ends[1], files, i, end, notes);
    for (; i < end; i++) {
        bool writes = (files->items[i].flags & O_ACCMODE) != O_RDONLY;

        writers += writes;
        place_all(files, i, i + 1, ends[writes]);
    }
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    if (writers == 0 || writers == n)
        notes_add(notes, "the pipe on descriptor %d was closed", first);
}

/* The kernel numbers the two sockets of a pair one after the other, nearly always. Who is connected with whom
 * it tells over netlink alone, which a sandbox does not have, and to try it would put bytes into connections
 * of others. */
static bool is_pair(const OpenFiles *files, size_t left, size_t right)
{
    const OpenFile *a = &files->items[left], *b = &files->items[right];

    return right < files->n && b->kind == OPEN_SOCKET && a->inode + 1 == b->inode && a->socket.creator != 0 &&
           a->socket.creator == b->socket.creator && a->socket.type == b->socket.type;
}

static void send_pending(int to, const OpenFile *file, Notes *notes)
{
    if (file->pending_size > 0 && send(to, file->pending, file->pending_size, MSG_DONTWAIT | MSG_NOSIGNAL) !=
                                      (ssize_t)file->pending_size)
        note_loss(file, file->pending_size, notes);
}

static void restore_pair(OpenFiles *files, size_t left, size_t right, size_t end, Notes *notes)
{
    int ends[2];

    if (socketpair(AF_UNIX, files->items[left].socket.type | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    send_pending(ends[1], &files->items[left], notes);
    send_pending(ends[0], &files->items[right], notes);
    place_all(files, left, right, ends[0]);
    place_all(files, right, end, ends[1]);
    close(ends[0]);
    close(ends[1]);
}

static const char *name_of(const OpenFile *file)
{
    if (file->kind == OPEN_TERMINAL)
        return "terminal";
    if (file->socket.listens)
        return "listening socket";
    return file->socket.domain == AF_UNIX ? "local connection" : "network connection";
}

/* Restores a connection as one that was lost: reading from it finds the end, writing to it fails. */
static void restore_dead(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    int ends[2];

    notes_add(notes, "the %s on descriptor %d was closed", name_of(&files->items[i]), files->items[i].fd);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    place_all(files, i, end, ends[0]);
    close(ends[0]);
    close(ends[1]);
}

static void restore_pipes(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    int stream = files->items[i].stream;

    if (stream > 0)
        place_all(files, i, end, descriptors_stream(stream));
    else
        restore_pipe(files, i, end, notes);
}

/* Returns the end of what it restored. */
static size_t restore_sockets(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    size_t second = end;

    if (!is_pair(files, i, second)) {
        restore_dead(files, i, end, notes);
        return end;
    }
    end = openfiles_same(files, second);
    restore_pair(files, i, second, end, notes);
    return end;
}

void ends_restore(OpenFiles *files, Notes *notes)
{
    for (size_t i = 0, end; i < files->n; i = end) {
        OpenFileKind kind = files->items[i].kind;

        end = openfiles_same(files, i);
        if (kind == OPEN_PIPE)
            restore_pipes(files, i, end, notes);
        else if (kind == OPEN_SOCKET)
            end = restore_sockets(files, i, end, notes);
        else if (kind == OPEN_TERMINAL)
            restore_dead(files, i, end, notes);
    }
}
