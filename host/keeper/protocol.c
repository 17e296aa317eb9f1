#include "host/keeper/protocol.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/schema.h"

#define SCHEMA_FILE "host/keeper/protocol.def"
#include "proto/schema/as_tables.h"

static const JobType types[JOB_KINDS] = {
#define JOB(kind, request, answer, slow)                                                                     \
    [JOB_##kind] = {#kind, schema_of_##request, schema_of_##answer, slow},
    JOBS(JOB)
#undef JOB
};

const JobType *job_type(JobKind kind)
{
    return kind < JOB_KINDS && types[kind].name ? &types[kind] : NULL;
}

/* ---- the stream ---- */

/* Reads in one turn of the loop; a small frame takes two. */
#define BATCH 32

typedef struct FrameHeader {
    uint32_t size;
    uint32_t descriptors;
} FrameHeader;

typedef struct Frame {
    List link; /* KeeperLink.out */
    FrameHeader header;
    Buf bytes;
    size_t sent; /* header included */
    int descriptors[JOB_DESCRIPTORS];
} Frame;

static void frame_free(Frame *frame)
{
    buf_deinit(&frame->bytes);
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        closep(&frame->descriptors[i]);
    free(frame);
}

/* ---- ending ---- */

void keeper_link_close(KeeperLink *link)
{
    int fd = link->file.fd;
    List *frame;

    if (!link->file.loop)
        return;
    loop_file_remove(&link->file);
    close(fd);
    buf_deinit(&link->in);
    while (link->n_came > 0)
        close(link->came[--link->n_came]);
    while ((frame = list_first(&link->out))) {
        list_remove(frame);
        frame_free(list_entry(frame, Frame, link));
    }
}

static void lose(KeeperLink *link, int error)
{
    if (!link->file.loop)
        return;
    keeper_link_close(link);
    link->events->lost(link, error);
}

/* ---- sending ---- */

static void attach(struct msghdr *message, const Frame *frame)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    size_t n = frame->header.descriptors;

    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(control), frame->descriptors, n * sizeof(int));
    message->msg_controllen = CMSG_SPACE(n * sizeof(int));
}

/* Descriptors go with the first byte. 0 when all of it is sent. */
static int send_frame(int fd, Frame *frame)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(JOB_DESCRIPTORS * sizeof(int))] = {0};

    while (frame->sent < sizeof(frame->header) + frame->bytes.size) {
        size_t head = MIN(frame->sent, sizeof(frame->header));
        size_t done = frame->sent - head;
        struct iovec parts[] = {
            {(char *)&frame->header + head, sizeof(frame->header) - head},
            {buf_head(&frame->bytes) + done, frame->bytes.size - done},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};

        if (frame->sent == 0 && frame->header.descriptors > 0) {
            message.msg_control = control;
            message.msg_controllen = sizeof(control);
            attach(&message, frame);
        }
        ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        frame->sent += (size_t)n;
    }
    return 0;
}

static bool takes(const KeeperLink *link)
{
    return link->file.loop && !link->paused && link->out_bytes <= link->limits.out;
}

static void await(KeeperLink *link)
{
    loop_file_change(&link->file, (takes(link) ? EPOLLIN : 0u) | (list_empty(&link->out) ? 0u : EPOLLOUT));
}

/* 0, also when the rest goes later. */
static int flush(KeeperLink *link)
{
    List *first;

    while ((first = list_first(&link->out))) {
        Frame *frame = list_entry(first, Frame, link);
        int r = send_frame(link->file.fd, frame);

        if (r == -EAGAIN)
            break;
        if (r < 0)
            return r;
        list_remove(first);
        link->out_bytes -= sizeof(*frame) + frame->bytes.size;
        frame_free(frame);
    }
    await(link);
    return 0;
}

static Frame *frame_new(Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    Frame *frame = calloc(1, sizeof(*frame));

    if (!frame) {
        buf_deinit(bytes);
        for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
            close_fd(&descriptors[i]);
        return NULL;
    }
    frame->bytes = *bytes;
    *bytes = BUF_NULL;
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        frame->descriptors[i] = -1;
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        if (descriptors[i] >= 0)
            frame->descriptors[frame->header.descriptors++] = take_fd(&descriptors[i]);
    frame->header.size = (uint32_t)frame->bytes.size;
    return frame;
}

int keeper_link_send(KeeperLink *link, Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    Frame *frame = frame_new(bytes, descriptors);
    int r;

    if (!frame)
        return -ENOMEM;
    if (!link->file.loop) {
        frame_free(frame);
        return -EPIPE;
    }
    list_append(&link->out, &frame->link);
    link->out_bytes += sizeof(*frame) + frame->bytes.size;
    r = flush(link);
    if (r < 0)
        shutdown(link->file.fd, SHUT_RDWR); /* the loop finds it lost: whoever sends is not called back */
    return r;
}

/* ---- receiving ---- */

/* Takes the descriptors that came with the beginning of the frame. */
static void collect(KeeperLink *link, struct msghdr *message)
{
    for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
        const int *fds = (const int *)(const void *)CMSG_DATA(control);

        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (control->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
            if (link->n_came < JOB_DESCRIPTORS)
                link->came[link->n_came++] = fds[i];
            else
                close(fds[i]);
    }
}

/* Finds the bytes still to come of the frame that is being read, as far as that is known. */
static int missing(const KeeperLink *link, size_t *ret)
{
    FrameHeader header;

    *ret = sizeof(header) - MIN(link->in.size, sizeof(header));
    if (*ret > 0)
        return 0;
    memcpy(&header, buf_head(&link->in), sizeof(header));
    if (header.size == 0 || header.size > link->limits.frame || header.descriptors != link->n_came)
        return -EBADMSG;
    *ret = sizeof(header) + header.size - link->in.size;
    return 0;
}

/* 0, or -EAGAIN when there is nothing, -EPIPE at the end, or another negative errno. */
static int receive(KeeperLink *link, size_t size)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(JOB_DESCRIPTORS * sizeof(int))];
    uint8_t *to = buf_reserve(&link->in, size);
    struct iovec part = {to, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n = to ? recvmsg(link->file.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) : 0;

    if (!to)
        return -ENOMEM;
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    collect(link, &message);
    buf_commit(&link->in, (size_t)n);
    if (message.msg_flags & MSG_CTRUNC)
        return -EBADMSG;
    return n == 0 ? -EPIPE : 0;
}

static void hand_on(KeeperLink *link)
{
    int descriptors[JOB_DESCRIPTORS] = {-1, -1};
    Buf bytes = link->in;

    link->in = BUF_NULL;
    buf_consume(&bytes, sizeof(FrameHeader));
    memcpy(descriptors, link->came, link->n_came * sizeof(int));
    link->n_came = 0;
    link->events->message(link, &bytes, descriptors);
}

/* Reads, and no more than belongs to one frame. -EAGAIN when there is nothing more for now. */
static int step(KeeperLink *link)
{
    size_t size;
    int r = missing(link, &size);

    if (r == 0)
        r = receive(link, size);
    if (r == 0)
        r = missing(link, &size);
    if (r == 0 && size == 0)
        hand_on(link);
    return r;
}

static void serve(KeeperLink *link, bool readable)
{
    int r = flush(link);

    for (int i = 0; r == 0 && i < BATCH && readable && takes(link); i++)
        r = step(link);
    if (r < 0 && r != -EAGAIN)
        lose(link, r);
}

static void on_ready(LoopFile *file, uint32_t events)
{
    serve(container_of(file, KeeperLink, file), events & ~(uint32_t)EPOLLOUT);
}

void keeper_link_pause(KeeperLink *link, bool paused)
{
    link->paused = paused;
    if (link->file.loop)
        await(link);
}

void keeper_link_wait(KeeperLink *link, int milliseconds)
{
    struct pollfd ready = {
        .fd = link->file.fd,
        .events = (short)(POLLIN | (list_empty(&link->out) ? 0 : POLLOUT)),
    };

    if (poll(&ready, 1, milliseconds) == 1)
        serve(link, ready.revents & ~POLLOUT);
}

int keeper_link_open(KeeperLink *link, Loop *loop, int fd, const KeeperLinkLimits *limits,
                     const KeeperLinkEvents *events)
{
    int r;

    *link = (KeeperLink){.events = events, .limits = *limits};
    list_init(&link->out);
    r = loop_file_add(loop, &link->file, fd, EPOLLIN, on_ready);
    if (r < 0)
        close(fd);
    return r;
}
