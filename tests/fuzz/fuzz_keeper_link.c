/* Bytes at either end of the link between controller and files worker: they make frames within the limits, or
 * the end of the link, and no descriptor stays open. The first byte says how the bytes are cut, and where a
 * descriptor goes along. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "host/keeper/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAME_MAX 4096u

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool lost;

static void on_message(KeeperLink *link, Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    int none[JOB_DESCRIPTORS] = {-1, -1};

    require(bytes->size > 0 && bytes->size <= FRAME_MAX);
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        if (descriptors[i] >= 0) {
            require(fcntl(descriptors[i], F_GETFD) == FD_CLOEXEC);
            close(descriptors[i]);
        }
    keeper_link_send(link, bytes, none); /* as an answer, which nobody reads */
}

static void on_lost(KeeperLink *link, int error)
{
    require(error < 0 && !lost);
    lost = true;
}

static const KeeperLinkEvents events = {.message = on_message, .lost = on_lost};
static const KeeperLinkLimits limits = {.frame = FRAME_MAX, .out = 8 * FRAME_MAX};

/* False when the link does not take it. */
static bool write_piece(int socket, const uint8_t *data, size_t size, size_t descriptors)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {0};
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

static void feed(KeeperLink *link, int socket, const uint8_t *data, size_t size)
{
    size_t piece = (size > 0 ? data[0] >> 2 : 0u) + 1, descriptors = size > 0 ? data[0] & 3 : 0;

    for (size_t at = 1; at < size; at += piece) {
        if (!write_piece(socket, data + at, MIN(piece, size - at), descriptors))
            return;
        descriptors = 0;
        while (!lost && link->out_bytes <= limits.out && is_readable(link->file.fd))
            keeper_link_wait(link, -1);
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
    KeeperLink link;
    int ends[2], free_before;

    if (!loop)
        require(loop_new(&loop) == 0);
    free_before = lowest_free();
    lost = false;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    require(keeper_link_open(&link, loop, ends[0], &limits, &events) == 0);
    feed(&link, ends[1], data, size);
    close(ends[1]);
    keeper_link_close(&link);
    require(lowest_free() == free_before);
    return 0;
}
