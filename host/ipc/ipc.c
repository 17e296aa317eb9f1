#include "host/ipc/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/base/clock.h"

/* Reads in one turn of the loop, so that a peer that floods does not have it for itself: a frame takes two, a
 * large one more; and the time after which none is begun. */
#define BATCH      32
#define BATCH_TIME (50 * NSEC_PER_USEC)

const IpcLimits ipc_messages = {.frame = IPC_MESSAGE_MAX, .out = SIZE_MAX, .most = 64u << 20};

typedef struct FrameHeader {
    uint32_t size;
    uint32_t descriptors;
} FrameHeader;

typedef struct Frame {
    List link; /* Ipc.out */
    FrameHeader header;
    Buf bytes;
    size_t sent; /* header included */
    Descriptors descriptors;
} Frame;

typedef union Control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * IPC_DESCRIPTORS_MAX)];
} Control;

/* ---- descriptors ---- */

void descriptors_add(Descriptors *descriptors, int fd)
{
    if (fd >= 0)
        descriptors->fd[descriptors->n++] = fd;
}

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
    if (n > IPC_DESCRIPTORS_MAX)
        return -E2BIG;
    for (; ret->n < n; ret->n++) {
        ret->fd[ret->n] = fcntl(descriptors[ret->n], F_DUPFD_CLOEXEC, 0);
        if (ret->fd[ret->n] < 0)
            return -errno;
    }
    return 0;
}

/* ---- frames ---- */

static Frame *frame_free(Frame *frame)
{
    if (!frame)
        return NULL;
    buf_deinit(&frame->bytes);
    descriptors_close(&frame->descriptors);
    free(frame);
    return NULL;
}
DEFINE_CLEANUP(Frame *, frame_free);

/* Takes the bytes and the descriptors over. NULL when out of memory. */
static Frame *frame_new(Buf *bytes, Descriptors *descriptors)
{
    Frame *frame = calloc(1, sizeof(*frame));

    if (frame) {
        frame->bytes = *bytes;
        frame->descriptors = *descriptors;
        frame->header = (FrameHeader){(uint32_t)bytes->size, (uint32_t)descriptors->n};
        *bytes = BUF_NULL;
        *descriptors = (Descriptors){0};
    }
    buf_deinit(bytes);
    descriptors_close(descriptors);
    return frame;
}

/* With copies of the descriptors. NULL with a negative errno in *ret_error. */
static Frame *frame_encode(unsigned kind, uint64_t id, const Schema *schema, const void *body,
                           const int *descriptors, size_t n, int *ret_error)
{
    Buf bytes _cleanup_(buf_deinit) = {.limit = IPC_MESSAGE_MAX};
    Descriptors copies _cleanup_(descriptors_close) = {0};
    int r = copy_descriptors(&copies, descriptors, n);
    Frame *frame;

    if (r == 0)
        r = message_append(&bytes, (MessageKind)kind, id, schema, body);
    frame = r == 0 ? frame_new(&bytes, &copies) : NULL;
    *ret_error = r == -ENOBUFS ? -EMSGSIZE : r < 0 ? r : frame ? 0 : -ENOMEM;
    return frame;
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

/* Sends what the peer takes, the descriptors with the first byte. 0 when all of it is sent, -EAGAIN, or
 * another negative errno. */
static int frame_send(int socket, Frame *frame)
{
    while (frame->sent < sizeof(frame->header) + frame->bytes.size) {
        size_t head = MIN(frame->sent, sizeof(frame->header));
        size_t done = frame->sent - head;
        struct iovec parts[] = {
            {(char *)&frame->header + head, sizeof(frame->header) - head},
            {buf_head(&frame->bytes) + done, frame->bytes.size - done},
        };
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};
        Control control;
        ssize_t n;

        if (frame->sent == 0)
            attach(&message, &control, &frame->descriptors);
        n = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == ECONNRESET ? -EPIPE : -errno;
        frame->sent += (size_t)n;
    }
    return 0;
}

/* ---- what comes ---- */

static void input_deinit(IpcInput *in)
{
    buf_deinit(&in->bytes);
    descriptors_close(&in->came);
}

/* Takes the descriptors that came with the beginning of the frame. */
static void collect(IpcInput *in, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        const int *fds = (const int *)(const void *)CMSG_DATA(part);

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
            if (in->came.n < IPC_DESCRIPTORS_MAX)
                descriptors_add(&in->came, fds[i]);
            else
                close(fds[i]);
    }
}

/* Finds the bytes still to come of the frame, as far as that is known. -EMSGSIZE for one above the limit, or
 * -EBADMSG. */
static int missing(const IpcInput *in, size_t limit, size_t *ret)
{
    FrameHeader header;

    *ret = sizeof(header) - MIN(in->bytes.size, sizeof(header));
    if (*ret > 0)
        return 0;
    memcpy(&header, buf_head(&in->bytes), sizeof(header));
    if (header.size > limit)
        return -EMSGSIZE;
    if (header.size == 0 || header.descriptors != in->came.n)
        return -EBADMSG;
    *ret = sizeof(header) + header.size - in->bytes.size;
    return 0;
}

/* 0, or -EAGAIN when there is nothing, -EPIPE at the end, or another negative errno. */
static int receive(int socket, IpcInput *in, size_t size)
{
    Control control;
    uint8_t *to = buf_reserve(&in->bytes, size);
    struct iovec part = {to, size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n = to ? recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) : 0;

    if (!to)
        return -ENOMEM;
    if (n < 0)
        return errno == EINTR ? -EAGAIN : errno == ECONNRESET ? -EPIPE : -errno;
    collect(in, &message);
    buf_commit(&in->bytes, (size_t)n);
    if (message.msg_flags & MSG_CTRUNC)
        return -EBADMSG;
    return n == 0 ? -EPIPE : 0;
}

/* Reads once, and no more than belongs to one frame. 1 when that is whole, 0 when it is not yet, -EAGAIN when
 * there is nothing, or another negative errno. */
static int input_read(int socket, IpcInput *in, size_t limit)
{
    size_t size;
    int r = missing(in, limit, &size);

    if (r == 0)
        r = receive(socket, in, size);
    if (r == 0)
        r = missing(in, limit, &size);
    return r < 0 ? r : size == 0;
}

/* Takes the whole frame out. */
static Buf input_take(IpcInput *in, Descriptors *ret)
{
    Buf bytes = in->bytes;

    *ret = in->came;
    *in = (IpcInput){0};
    buf_consume(&bytes, sizeof(FrameHeader));
    return bytes;
}

/* ---- losing ---- */

static void on_idle(LoopIdle *idle)
{
    Ipc *ipc = container_of(idle, Ipc, idle);

    ipc->events->lost(ipc, ipc->error);
}

/* Told once nothing else happens: whoever sends is not called back meanwhile. */
void ipc_lose(Ipc *ipc, int error)
{
    if (ipc->error)
        return;
    ipc->error = error;
    loop_file_change(&ipc->file, 0);
    loop_idle_add(ipc->file.loop, &ipc->idle, on_idle);
}

/* ---- sending ---- */

/* With the mutex held. 0 when the peer has taken all, -EAGAIN, or another negative errno. */
static int flush_out(Ipc *ipc)
{
    List *first;
    int r = 0;

    while (r == 0 && (first = list_first(&ipc->out))) {
        Frame *frame = list_entry(first, Frame, link);

        r = frame_send(ipc->file.fd, frame);
        if (r < 0)
            break;
        list_remove(first);
        ipc->out_bytes -= sizeof(*frame) + frame->bytes.size;
        frame_free(frame);
    }
    return r;
}

static int flush(Ipc *ipc)
{
    int r;

    pthread_mutex_lock(&ipc->mutex);
    r = flush_out(ipc);
    pthread_mutex_unlock(&ipc->mutex);
    return r;
}

/* Takes the frame over. As flush, and -ENOBUFS where the peer has left too much. */
static int enqueue(Ipc *ipc, Frame *frame)
{
    int r = -ENOBUFS;

    pthread_mutex_lock(&ipc->mutex);
    if (ipc->out_bytes <= ipc->limits.most) {
        list_append(&ipc->out, &frame->link);
        ipc->out_bytes += sizeof(*frame) + frame->bytes.size;
        frame = NULL;
        r = flush_out(ipc);
    }
    pthread_mutex_unlock(&ipc->mutex);
    frame_free(frame);
    return r;
}

static size_t waiting(Ipc *ipc)
{
    size_t bytes;

    pthread_mutex_lock(&ipc->mutex);
    bytes = ipc->out_bytes;
    pthread_mutex_unlock(&ipc->mutex);
    return bytes;
}

static bool takes(Ipc *ipc)
{
    return ipc->file.loop && !ipc->error && !ipc->paused && waiting(ipc) <= ipc->limits.out;
}

static void await(Ipc *ipc)
{
    if (ipc->file.loop && !ipc->error)
        loop_file_change(&ipc->file, (takes(ipc) ? EPOLLIN : 0u) | (waiting(ipc) > 0 ? EPOLLOUT : 0u));
}

/* Takes the frame over. */
static int send_frame(Ipc *ipc, Frame *frame)
{
    int r = enqueue(ipc, frame);

    if (r < 0 && r != -EAGAIN) {
        ipc_lose(ipc, r);
        return r;
    }
    await(ipc);
    return 0;
}

static int error_of(const Ipc *ipc)
{
    return ipc->file.loop ? ipc->error : -EPIPE;
}

int ipc_send(Ipc *ipc, unsigned kind, uint64_t id, const Schema *schema, const void *body,
             const int *descriptors, size_t n)
{
    int r = error_of(ipc);
    Frame *frame = r == 0 ? frame_encode(kind, id, schema, body, descriptors, n, &r) : NULL;

    return frame ? send_frame(ipc, frame) : r;
}

int ipc_send_frame(Ipc *ipc, Buf *bytes, Descriptors *descriptors)
{
    int r = error_of(ipc);
    Frame *frame = frame_new(bytes, descriptors);

    if (frame && r == 0)
        return send_frame(ipc, frame);
    frame_free(frame);
    return r < 0 ? r : -ENOMEM;
}

int ipc_send_over(int socket, unsigned kind, const Schema *schema, const void *body, const int *descriptors,
                  size_t n)
{
    int r;
    _cleanup_(frame_freep) Frame *frame = frame_encode(kind, 0, schema, body, descriptors, n, &r);

    return frame ? frame_send(socket, frame) : r;
}

/* ---- receiving ---- */

static int dispatch(Ipc *ipc, const Buf *bytes, Descriptors *descriptors)
{
    Problem problem = PROBLEM_NULL;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;

    if (message_decode(&message, buf_head(bytes), bytes->size, &problem) < 0)
        return problem.code == ERR_INTERNAL ? -ENOMEM : -EBADMSG;
    return ipc->events->message(ipc, &message, descriptors);
}

static int hand_on(Ipc *ipc)
{
    Descriptors descriptors;
    Buf bytes = input_take(&ipc->in, &descriptors);
    int r = ipc->events->frame ? ipc->events->frame(ipc, &bytes, &descriptors)
                               : dispatch(ipc, &bytes, &descriptors);

    descriptors_close(&descriptors);
    buf_deinit(&bytes);
    return r;
}

/* Returns whether there may be more for now. */
static bool take_some(Ipc *ipc)
{
    int r = input_read(ipc->file.fd, &ipc->in, ipc->limits.frame);

    if (r == -EAGAIN)
        return false;
    if (r == 1)
        r = hand_on(ipc);
    if (r < 0 && ipc->file.loop)
        ipc_lose(ipc, r);
    return true;
}

static void serve(Ipc *ipc, uint32_t events)
{
    uint64_t began = clock_now();
    int r = flush(ipc);

    if (r < 0 && r != -EAGAIN)
        ipc_lose(ipc, r);
    if (!takes(ipc) && events & (EPOLLHUP | EPOLLERR))
        ipc_lose(ipc, -EPIPE);
    for (int i = 0; i < BATCH && events & ~(uint32_t)EPOLLOUT && takes(ipc) && take_some(ipc); i++)
        if (clock_now() - began >= BATCH_TIME)
            break;
    await(ipc);
}

static void on_ready(LoopFile *file, uint32_t events)
{
    serve(container_of(file, Ipc, file), events);
}

void ipc_pause(Ipc *ipc, bool paused)
{
    ipc->paused = paused;
    await(ipc);
}

static int wait_until(int fd, short events, uint64_t end)
{
    struct pollfd ready = {.fd = fd, .events = events};

    for (;;) {
        uint64_t now = clock_now();
        uint64_t left = now < end ? (end - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC : 0;
        int n = poll(&ready, 1, (int)MIN(left, (uint64_t)INT32_MAX));

        if (n > 0)
            return 0;
        if (n == 0)
            return -ETIMEDOUT;
        if (errno != EINTR)
            return -errno;
    }
}

void ipc_wait(Ipc *ipc, int milliseconds)
{
    struct pollfd ready = {
        .fd = ipc->file.fd,
        .events = (short)(POLLIN | (waiting(ipc) > 0 ? POLLOUT : 0)),
    };

    if (poll(&ready, 1, milliseconds) == 1)
        serve(ipc, (uint32_t)ready.revents);
}

/* ---- beginning and ending ---- */

int ipc_pair(int ret[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) < 0 ? -errno : 0;
}

int ipc_open(Ipc *ipc, Loop *loop, int fd, const IpcLimits *limits, const IpcEvents *events)
{
    int r;

    *ipc = (Ipc){.events = events, .limits = *limits};
    list_init(&ipc->out);
    pthread_mutex_init(&ipc->mutex, NULL);
    r = loop_file_add(loop, &ipc->file, fd, EPOLLIN, on_ready);
    if (r < 0)
        close(fd);
    return r;
}

void ipc_close(Ipc *ipc)
{
    int fd = ipc->file.fd;
    List *link;

    if (!ipc->file.loop)
        return;
    while ((link = list_first(&ipc->out))) {
        list_remove(link);
        frame_free(list_entry(link, Frame, link));
    }
    input_deinit(&ipc->in);
    loop_idle_remove(&ipc->idle);
    loop_file_remove(&ipc->file);
    pthread_mutex_destroy(&ipc->mutex);
    close(fd);
}

/* ---- questions: a message, and a socket for its answer ---- */

static int send_until(Ipc *ipc, Frame *frame, uint64_t end)
{
    int r = enqueue(ipc, frame);

    while (r == -EAGAIN && (r = wait_until(ipc->file.fd, POLLOUT, end)) == 0)
        r = flush(ipc);
    return r;
}

static int answer_take(IpcInput *in, IpcAnswer *ret)
{
    Problem problem = PROBLEM_NULL;

    ret->bytes = input_take(in, &ret->descriptors);
    return message_decode(&ret->message, buf_head(&ret->bytes), ret->bytes.size, &problem) < 0 ? -EBADMSG : 0;
}

static int receive_until(int fd, uint64_t end, IpcAnswer *ret)
{
    IpcInput in = {0};
    int r = 0;

    while (r == 0 || r == -EAGAIN) {
        r = wait_until(fd, POLLIN, end);
        if (r == 0)
            r = input_read(fd, &in, IPC_MESSAGE_MAX);
    }
    if (r < 0) {
        input_deinit(&in);
        return r;
    }
    return answer_take(&in, ret);
}

void ipc_answer_deinit(IpcAnswer *answer)
{
    message_deinit(&answer->message);
    descriptors_close(&answer->descriptors);
    buf_deinit(&answer->bytes);
    *answer = IPC_ANSWER_NULL;
}

/* Makes the frame of a question, and our end of the socket that its answer comes over. NULL with a negative
 * errno in *ret_error. */
static Frame *question_encode(unsigned kind, const Schema *schema, const void *body, const int *descriptors,
                              size_t n, int *ret_socket, int *ret_error)
{
    int all[IPC_DESCRIPTORS_MAX], ends[2];
    Frame *frame;

    *ret_error = n >= IPC_DESCRIPTORS_MAX ? -E2BIG : ipc_pair(ends);
    if (*ret_error < 0)
        return NULL;
    if (n > 0)
        memcpy(all, descriptors, n * sizeof(int));
    all[n] = ends[1];
    frame = frame_encode(kind, 0, schema, body, all, n + 1, ret_error);
    close(ends[1]); /* the frame has a copy, and goes when it is sent: so the peer's end is noticed */
    if (frame)
        *ret_socket = ends[0];
    else
        close(ends[0]);
    return frame;
}

int ipc_ask(Ipc *ipc, unsigned kind, const Schema *schema, const void *body, const int *descriptors, size_t n,
            double seconds, IpcAnswer *ret)
{
    uint64_t end = clock_now() + clock_from_seconds(seconds);
    _cleanup_(closep) int socket = -1;
    int r;
    Frame *frame = question_encode(kind, schema, body, descriptors, n, &socket, &r);

    if (frame)
        r = send_until(ipc, frame, end);
    return r < 0 ? r : receive_until(socket, end, ret);
}

void ipc_question_drop(IpcQuestion *question)
{
    int fd = question->file.fd;

    if (!question->file.loop)
        return;
    loop_file_remove(&question->file);
    close(fd);
    input_deinit(&question->in);
    question->in = (IpcInput){0};
}

static void on_answer(LoopFile *file, uint32_t events)
{
    IpcQuestion *question = container_of(file, IpcQuestion, file);
    IpcAnswer answer _cleanup_(ipc_answer_deinit) = IPC_ANSWER_NULL;
    int r = input_read(file->fd, &question->in, IPC_MESSAGE_MAX);

    if (r == 0 || r == -EAGAIN)
        return;
    if (r == 1)
        r = answer_take(&question->in, &answer);
    ipc_question_drop(question);
    question->done(question, r, &answer);
}

int ipc_ask_later(Ipc *ipc, IpcQuestion *question, unsigned kind, const Schema *schema, const void *body,
                  const int *descriptors, size_t n, void (*done)(IpcQuestion *, int, IpcAnswer *))
{
    int r = error_of(ipc), socket = -1;
    Frame *frame = r == 0 ? question_encode(kind, schema, body, descriptors, n, &socket, &r) : NULL;

    *question = (IpcQuestion){.done = done};
    if (!frame)
        return r;
    r = loop_file_add(ipc->file.loop, &question->file, socket, EPOLLIN, on_answer);
    if (r < 0) {
        close(socket);
        frame_free(frame);
        return r;
    }
    r = send_frame(ipc, frame);
    if (r < 0)
        ipc_question_drop(question);
    return r;
}

bool ipc_is_made_by(int fd, pid_t peer)
{
    struct ucred maker;
    socklen_t size = sizeof(maker);
    int domain, type;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &size) < 0 || maker.pid != peer)
        return false;
    size = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

int ipc_answer(int socket, pid_t peer, unsigned kind, const Schema *schema, const void *body,
               const int *descriptors, size_t n)
{
    _cleanup_(closep) int fd = socket;

    if (fd < 0 || !ipc_is_made_by(fd, peer))
        return -EBADMSG;
    return ipc_send_over(fd, kind, schema, body, descriptors, n);
}
