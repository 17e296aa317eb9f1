#include "guest/supervisor/link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define PAUSE_MINIMUM (20 * NSEC_PER_MSEC)
#define PAUSE_MAXIMUM NSEC_PER_SEC
#define READ_SIZE     (64u << 10)
#define EVENT_BACKLOG (8u << 20)

static void on_ready(LoopFile *file, uint32_t events);
static void on_retry(LoopTimer *timer);

/* Reads a whole file of at most `size` bytes. */
static ssize_t read_file(const char *path, void *to, size_t size)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size);
    int r = -errno;

    if (n >= 0)
        return n;
    log_error("cannot read a file of the link directory", "file=%s error=%s", path, strerror(-r));
    return r;
}

int link_init(Link *link, Loop *loop)
{
    char session[sizeof(link->session) + 1];
    uint8_t secret[GUEST_SECRET_SIZE];
    ssize_t n = read_file("session", session, sizeof(session) - 1);

    if (n < 0)
        return (int)n;
    session[n] = '\0';
    session[strcspn(session, "\n")] = '\0';
    if (!session[0] || strlen(session) > LIMIT_SESSION_NAME) {
        log_error("the session's name is too long or empty", "bytes=%zd", n);
        return -EINVAL;
    }
    n = read_file("secret", secret, sizeof(secret));
    if (n != GUEST_SECRET_SIZE) {
        if (n >= 0)
            log_error("the secret is too short", "bytes=%zd", n);
        return n < 0 ? (int)n : -EINVAL;
    }
    *link = (Link){.loop = loop, .fd = -1, .pause = PAUSE_MINIMUM};
    strcpy(link->session, session);
    memcpy(link->secret, secret, sizeof(secret));
    explicit_bzero(secret, sizeof(secret));
    return 0;
}

static void disconnect(Link *link)
{
    loop_file_remove(&link->file);
    loop_idle_remove(&link->flush);
    close_fd(&link->fd);
    buf_deinit(&link->in);
    buf_deinit(&link->out);
    link->zmtp.state = ZMTP_FAILED;
}

void link_deinit(Link *link)
{
    disconnect(link);
    loop_timer_cancel(&link->retry);
    explicit_bzero(link->secret, sizeof(link->secret));
}

static void retry_later(Link *link)
{
    if (loop_timer_set(link->loop, &link->retry, clock_now() + link->pause, on_retry) < 0)
        log_error("no memory for a timer", "purpose=reconnect");
    link->pause = MIN(link->pause * 2, PAUSE_MAXIMUM);
}

static void lose(Link *link, int error)
{
    log_info("connection lost", "error=%s", strerror(-error));
    disconnect(link);
    link->on_lost(link);
    retry_later(link);
}

/* 0 also when the socket takes no more for now. */
static int write_out(Link *link)
{
    while (link->out.size > 0) {
        ssize_t n = send(link->fd, buf_head(&link->out), link->out.size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return -errno;
        buf_consume(&link->out, (size_t)n);
    }
    return loop_file_change(&link->file, EPOLLIN | (link->out.size > 0 ? EPOLLOUT : 0));
}

static void on_flush(LoopIdle *idle)
{
    Link *link = container_of(idle, Link, flush);
    int r = write_out(link);

    if (r < 0)
        lose(link, r);
}

/* All messages of one turn of the loop leave in one system call. */
static void flush_soon(Link *link)
{
    loop_idle_add(link->loop, &link->flush, on_flush);
}

static void handle_frame(Link *link, const ZmtpFrame *frame)
{
    Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (message_decode(&message, frame->data, frame->size, &problem) < 0)
        log_warn("message refused", "reason=%s", problem.text);
    else
        link->on_message(link, &message);
    message_deinit(&message);
}

static int take_input(Link *link)
{
    ZmtpFrame frame;
    int r;

    do {
        bool was_ready = link->zmtp.state == ZMTP_READY;

        r = zmtp_next(&link->zmtp, &link->in, &link->out, &frame);
        if (!was_ready && link->zmtp.state == ZMTP_READY)
            link->on_open(link);
        if (r > 0) {
            handle_frame(link, &frame);
            buf_consume(&link->in, frame.used);
        }
    } while (r > 0);
    flush_soon(link);
    return r;
}

static void on_ready(LoopFile *file, uint32_t events)
{
    Link *link = container_of(file, Link, file);
    ssize_t n = -EAGAIN;
    int r = 0;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        n = buf_read_fd(&link->in, link->fd, READ_SIZE);
    if (n > 0)
        r = take_input(link);
    else if (n == 0)
        r = -ECONNRESET;
    else if (n != -EAGAIN)
        r = (int)n;
    if (r == 0 && (events & EPOLLOUT))
        r = write_out(link);
    if (r < 0)
        lose(link, r);
}

static int try_connect(Link *link)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "sock"};
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    r = zmtp_init(&link->zmtp, LIMIT_CLIENT_FRAME, &link->out);
    if (r == 0)
        r = loop_file_add(link->loop, &link->file, fd, EPOLLIN, on_ready);
    if (r < 0)
        return r;
    link->fd = take_fd(&fd);
    flush_soon(link);
    return 0;
}

void link_connect(Link *link)
{
    int r = try_connect(link);

    if (r == 0)
        return;
    log_debug("cannot connect", "error=%s", strerror(-r));
    buf_clear(&link->out);
    retry_later(link);
}

static void on_retry(LoopTimer *timer)
{
    link_connect(container_of(timer, Link, retry));
}

void link_accepted(Link *link)
{
    link->pause = PAUSE_MINIMUM;
}

int link_begin(Link *link, LinkFrame *frame, MessageKind kind, uint64_t id, size_t fields)
{
    int r = zmtp_frame_begin(&link->zmtp, &link->out, &frame->mark);

    if (r == 0)
        writer_message(&frame->writer, &link->out, kind, id, fields);
    return r;
}

int link_end(Link *link, LinkFrame *frame)
{
    int r = writer_finish(&frame->writer);

    if (r < 0) {
        link->out.size = frame->mark;
        return r;
    }
    zmtp_frame_end(&link->out, frame->mark);
    flush_soon(link);
    return 0;
}

int link_send(Link *link, const Buf *envelope)
{
    size_t mark;
    int r = zmtp_frame_begin(&link->zmtp, &link->out, &mark);

    if (r < 0)
        return r;
    r = buf_append(&link->out, buf_head(envelope), envelope->size);
    if (r < 0) {
        link->out.size = mark;
        return r;
    }
    zmtp_frame_end(&link->out, mark);
    flush_soon(link);
    return 0;
}

bool link_has_room(const Link *link)
{
    return link->zmtp.state == ZMTP_READY && link->out.size < EVENT_BACKLOG;
}
