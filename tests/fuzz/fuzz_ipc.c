/* Bytes at either end of what leads from one process of limpetd to another: they make frames within the
 * limits, or its end, and no descriptor stays open. The first byte says how the bytes are cut, and where a
 * descriptor goes along. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "host/ipc/ipc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAME_MAX   4096u
#define DESCRIPTORS 12u /* at most, and more than may come */

static void require(bool holds)
{
    if (!holds)
        abort();
}

static int on_frame(Ipc *ipc, Buf *bytes, Descriptors *descriptors)
{
    Descriptors none = {0};

    require(bytes->size > 0 && bytes->size <= FRAME_MAX);
    for (size_t i = 0; i < descriptors->n; i++)
        require(fcntl(descriptors->fd[i], F_GETFD) == FD_CLOEXEC);
    ipc_send_frame(ipc, bytes, &none); /* as an answer, which nobody reads */
    return 0;
}

static void on_lost(Ipc *ipc, int error)
{
    abort(); /* no loop runs */
}

static const IpcEvents events = {.frame = on_frame, .lost = on_lost};
static const IpcLimits limits = {.frame = FRAME_MAX, .out = 8 * FRAME_MAX, .most = SIZE_MAX};

/* False when it is not taken. */
static bool write_piece(int socket, const uint8_t *data, size_t size, size_t descriptors)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(DESCRIPTORS * sizeof(int))] = {0};
    struct iovec part = {(void *)data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct cmsghdr *header = (struct cmsghdr *)(void *)control;

    if (descriptors > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
        *header = (struct cmsghdr){CMSG_LEN(descriptors * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        for (size_t i = 0; i < descriptors; i++)
            ((int *)(void *)CMSG_DATA(header))[i] = STDERR_FILENO;
    }
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

static bool is_readable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return poll(&ready, 1, 0) == 1;
}

static void feed(Ipc *ipc, int socket, const uint8_t *data, size_t size)
{
    size_t piece = (size > 0 ? data[0] >> 2 : 0u) + 1, descriptors = size > 0 ? data[0] & 3 : 0;

    if (descriptors == 3)
        descriptors = DESCRIPTORS;
    for (size_t at = 1; at < size; at += piece) {
        if (!write_piece(socket, data + at, MIN(piece, size - at), descriptors))
            return;
        descriptors = 0;
        while (!ipc->error && ipc->out_bytes <= limits.out && is_readable(ipc->file.fd))
            ipc_wait(ipc, -1);
        require(ipc->error <= 0);
    }
}

static int lowest_free(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Loop *loop;
    Ipc ipc;
    int ends[2], free_before;

    if (!loop)
        require(loop_new(&loop) == 0);
    free_before = lowest_free();
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    require(ipc_open(&ipc, loop, ends[0], &limits, &events) == 0);
    feed(&ipc, ends[1], data, size);
    close(ends[1]);
    ipc_close(&ipc);
    require(lowest_free() == free_before);
    return 0;
}
