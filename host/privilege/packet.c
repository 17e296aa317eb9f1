#include "host/privilege/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

typedef union Control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * RPC_DESCRIPTORS_MAX)];
} Control;

int descriptors_take(Descriptors *descriptors, size_t i)
{
    return i < descriptors->n ? take_fd(&descriptors->fd[i]) : -1;
}

void descriptors_close(Descriptors *descriptors)
{
    for (size_t i = 0; i < descriptors->n; i++)
        close_fd(&descriptors->fd[i]);
    descriptors->n = 0;
}

static int copy_descriptors(Descriptors *ret, const int *descriptors, size_t n)
{
    for (; ret->n < n; ret->n++) {
        ret->fd[ret->n] = fcntl(descriptors[ret->n], F_DUPFD_CLOEXEC, 0);
        if (ret->fd[ret->n] < 0)
            return -errno;
    }
    return 0;
}

Packet *packet_new(unsigned kind, uint64_t id, const Schema *schema, const void *body, const int *descriptors,
                   size_t n, int *ret_error)
{
    _cleanup_(packet_freep) Packet *packet = calloc(1, sizeof(*packet));
    int r = packet ? 0 : -ENOMEM;

    if (r == 0) {
        packet->bytes.limit = RPC_PACKET_MAX;
        r = n <= RPC_DESCRIPTORS_MAX ? copy_descriptors(&packet->descriptors, descriptors, n) : -E2BIG;
    }
    if (r == 0)
        r = message_append(&packet->bytes, (MessageKind)kind, id, schema, body);
    *ret_error = r == -ENOBUFS ? -EMSGSIZE : r;
    return r < 0 ? NULL : take(packet);
}

Packet *packet_free(Packet *packet)
{
    if (!packet)
        return NULL;
    descriptors_close(&packet->descriptors);
    buf_deinit(&packet->bytes);
    free(packet);
    return NULL;
}

static void attach(struct msghdr *message, Control *control, const Descriptors *descriptors)
{
    size_t size = sizeof(int) * descriptors->n;

    if (size == 0)
        return;
    memset(control, 0, sizeof(*control));
    message->msg_control = control;
    message->msg_controllen = CMSG_SPACE(size);
    control->header =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(size)};
    memcpy(CMSG_DATA(&control->header), descriptors->fd, size);
}

int packet_send(int socket, const Packet *packet)
{
    struct iovec data = {.iov_base = buf_head(&packet->bytes), .iov_len = packet->bytes.size};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    Control control;
    ssize_t n;

    attach(&message, &control, &packet->descriptors);
    do
        n = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return 0;
    return errno == ECONNRESET ? -EPIPE : -errno;
}

static void collect(struct msghdr *message, Descriptors *ret)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        n = MIN(n, RPC_DESCRIPTORS_MAX - ret->n); /* there is room for no more in what was received */
        memcpy(ret->fd + ret->n, CMSG_DATA(part), n * sizeof(int));
        ret->n += n;
    }
}

ssize_t packet_receive(int socket, uint8_t *bytes, Descriptors *ret)
{
    struct iovec data = {.iov_base = bytes, .iov_len = RPC_PACKET_MAX};
    Control control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n;

    *ret = (Descriptors){0};
    do
        n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    collect(&message, ret);
    if (!(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return n;
    descriptors_close(ret);
    return -EMSGSIZE;
}
