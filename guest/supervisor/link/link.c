#include "guest/supervisor/link/link.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define PAUSE_MINIMUM (20 * NSEC_PER_MSEC)
#define PAUSE_MAXIMUM NSEC_PER_SEC
#define EVENT_BACKLOG (8u << 20)

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
    *link = (Link){.loop = loop, .socket = ZMTP_SOCKET_NULL, .pause = PAUSE_MINIMUM};
    strcpy(link->session, session);
    memcpy(link->secret, secret, sizeof(secret));
    explicit_bzero(secret, sizeof(secret));
    return 0;
}

void link_deinit(Link *link)
{
    zmtp_socket_close(&link->socket);
    loop_timer_cancel(&link->retry);
    explicit_bzero(link->secret, sizeof(link->secret));
}

static void retry_later(Link *link)
{
    if (loop_timer_set(link->loop, &link->retry, clock_now() + link->pause, on_retry) < 0)
        log_error("no memory for a timer", "purpose=reconnect");
    link->pause = MIN(link->pause * 2, PAUSE_MAXIMUM);
}

static Link *link_of(ZmtpSocket *socket)
{
    return container_of(socket, Link, socket);
}

static void on_open(ZmtpSocket *socket)
{
    Link *link = link_of(socket);

    link->on_open(link);
}

static void on_message(ZmtpSocket *socket, const ZmtpFrame *frame)
{
    Link *link = link_of(socket);
    Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (message_decode(&message, frame->data, frame->size, &problem) < 0)
        log_warn("message refused", "reason=%s", problem.text);
    else
        link->on_message(link, &message);
    message_deinit(&message);
}

static void on_lost(ZmtpSocket *socket, int error)
{
    Link *link = link_of(socket);

    log_info("connection lost", "error=%s", strerror(-error));
    link->accepted = false;
    link->on_lost(link);
    retry_later(link);
}

static const ZmtpSocketEvents socket_events = {.open = on_open, .message = on_message, .lost = on_lost};

static int try_connect(Link *link)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "sock"};
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    r = zmtp_socket_open(&link->socket, link->loop, fd, ZMTP_DEALER, LIMIT_CLIENT_FRAME, 0, &socket_events);
    if (r < 0)
        return r;
    take_fd(&fd);
    link->socket.takes_passed = true;
    return 0;
}

int link_take_passed(Link *link)
{
    return zmtp_socket_take_passed(&link->socket);
}

void link_connect(Link *link)
{
    int r = try_connect(link);

    if (r == 0)
        return;
    log_debug("cannot connect", "error=%s", strerror(-r));
    retry_later(link);
}

static void on_retry(LoopTimer *timer)
{
    link_connect(container_of(timer, Link, retry));
}

void link_accepted(Link *link)
{
    link->accepted = true;
    link->pause = PAUSE_MINIMUM;
}

int link_write(Link *link, MessageKind kind, uint64_t id, const Schema *schema, const void *body)
{
    size_t mark;
    int r = zmtp_socket_begin(&link->socket, &mark);

    if (r < 0)
        return r;
    return zmtp_socket_end(&link->socket, mark, message_append(&link->socket.out, kind, id, schema, body));
}

void link_pass(Link *link, int fd)
{
    int r = zmtp_socket_pass(&link->socket, fd, false);

    if (r < 0)
        log_info("descriptor not passed", "error=%s", strerror(-r));
}

void link_refuse_problem(Link *link, uint64_t id, const Problem *problem)
{
    const MsgError error = {.number = problem->code,
                            .name = text_of(error_name(problem->code)),
                            .message = text_of(problem->text)};

    link_say(link, MSG_ERROR, id, MsgError, &error);
}

void link_refuse(Link *link, uint64_t id, ErrorCode code, const char *what, const char *why)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s: %s", what, why);
    link_refuse_problem(link, id, &problem);
}

int link_send(Link *link, const Buf *envelope)
{
    return zmtp_socket_send(&link->socket, buf_head(envelope), envelope->size);
}

bool link_has_room(const Link *link)
{
    return link->socket.zmtp.state == ZMTP_READY && link->socket.out.size < EVENT_BACKLOG;
}

/* ---- output that is wanted as it comes ---- */

/* Credit that is kept back while the call runs, so that what pipes and rings hold at its end can still be
 * sent. For each of two streams that is twice what an event takes, and up to three events where they follow
 * each other. */
#define CREDIT_RESERVE (3 * 2)

void subscription_begin(OutputSubscription *subscription, bool wanted)
{
    *subscription = (OutputSubscription){.wanted = wanted, .active = wanted, .credit = LIMIT_CREDIT};
}

void subscription_output(OutputSubscription *subscription, Link *link, uint64_t id, unsigned stream,
                         const uint8_t *bytes, size_t n)
{
    const MsgOutput output = {.stream = stream, .data = {(const char *)bytes, n}};

    if (subscription->active && subscription->credit > 0 && link_has_room(link) &&
        link_say(link, MSG_OUTPUT, id, MsgOutput, &output) == 0)
        subscription->credit--;
}

void subscription_lost(OutputSubscription *subscription)
{
    subscription->active = false;
    subscription->credit = 0;
}

void subscription_credit(OutputSubscription *subscription, uint64_t count)
{
    subscription->active = subscription->wanted;
    subscription->credit = (unsigned)MIN(count, LIMIT_CREDIT - subscription->credit) + subscription->credit;
}

bool subscription_takes(const OutputSubscription *subscription)
{
    return !subscription->active || subscription->credit > CREDIT_RESERVE;
}
