/* A connection of sandboxed code to the proxy, and the tunnel that it may become: bytes both ways between a
 * sandbox and what it has connected to, which nobody looks at. */
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "host/egress/internal.h"
#include "host/egress/sealed.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- a tunnel ---- */

/* Small enough to stay in the processor's cache from the one copy to the other. */
#define PIECE (64u << 10)
/* So that none has the loop for itself. */
#define PIECES 16

/* False: nothing more comes, ever. */
static bool relay(Caller *caller, int from, int to, Buf *buf, uint64_t *count)
{
    static uint8_t piece[PIECE];

    const size_t room = caller_room(caller);

    for (int i = 0; i < PIECES && buf->size < room; i++) {
        ssize_t n = recv(from, piece, MIN(sizeof(piece), room - buf->size), MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0 || pass(to, buf, piece, (size_t)n) < 0)
            return false;
        *count += (size_t)n;
        caller->used = clock_now();
        served_count(caller->served, (size_t)n);
    }
    return true;
}

/* Takes bytes of the sandbox. False: nothing more comes, ever. */
static bool tunnel_take(Caller *caller)
{
    return relay(caller, caller->file.fd, caller->peer.fd, &caller->in, &caller->sent);
}

static void on_peer_ready(LoopFile *file, uint32_t events)
{
    Caller *caller = container_of(file, Caller, peer);

    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP) &&
        !relay(caller, file->fd, caller->file.fd, &caller->out, &caller->received))
        caller->peer_ended = true;
    /* The kernel keeps reporting that both directions have ended: once is enough. */
    if (events & (EPOLLHUP | EPOLLERR) && caller->peer_ended)
        loop_file_remove(file);
    caller_go_on(caller);
}

/* Announces the tunnel to the sandbox, which has asked for it, or to the relay that it leads to. */
static int announce(Caller *caller)
{
    static const char answer[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    const NetworkBinding *relay = network_relay(&caller->served->network);

    return relay ? sealed_append(&caller->in, text_of(relay->headers[0].value))
                 : buf_append(&caller->out, answer, sizeof(answer) - 1);
}

void tunnel_begin(Caller *caller, int peer)
{
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    caller->keeps = false;
    if (loop_file_add(caller->served->egress->loop, &caller->peer, peer, EPOLLIN, on_peer_ready) < 0 ||
        announce(caller) < 0) {
        caller->peer.fd = peer;
        caller_refuse(caller, 503, "out of memory");
        return;
    }
    caller->state = TUNNELS;
}

static void tunnel_end(Caller *caller)
{
    int fd = caller->peer.fd;

    if (caller->peer.loop)
        loop_file_remove(&caller->peer);
    if (fd >= 0)
        close(fd);
    caller->peer.fd = -1;
}

static void finish(Caller *caller)
{
    caller_log(caller, "ended");
    tunnel_end(caller);
    caller_next(caller);
}

static void watch_peer(Caller *caller)
{
    bool reads = caller->out.size < caller_room(caller) && !caller->peer_ended;

    if (caller->peer.loop)
        loop_file_change(&caller->peer, (reads ? EPOLLIN : 0) | (caller->in.size > 0 ? EPOLLOUT : 0));
}

static void tunnel_pump(Caller *caller)
{
    if (buf_send(&caller->in, caller->peer.fd) < 0)
        caller->peer_ended = true;
    if (buf_send(&caller->out, caller->file.fd) < 0)
        caller->in_ended = true;
    if (caller->in_ended && caller->in.size == 0 && !caller->peer_told) {
        shutdown(caller->peer.fd, SHUT_WR);
        caller->peer_told = true;
    }
    if (caller->peer_ended && caller->out.size == 0 && !caller->out_ended) {
        shutdown(caller->file.fd, SHUT_WR);
        caller->out_ended = true;
    }
    if (caller->peer_told && caller->out_ended)
        finish(caller);
    else
        watch_peer(caller);
}

/* ---- the connection ---- */

/* A head has to come within that, and what has been said has to be read. */
#define HEAD_SECONDS   75
#define LINGER_SECONDS 5
/* Nothing in either direction for so long: nobody uses it. */
#define IDLE_SECONDS 1800

static uint64_t patience(const Caller *caller)
{
    switch (caller->state) {
    case READS_HEAD:
        return HEAD_SECONDS * NSEC_PER_SEC;
    case LINGERS:
        return LINGER_SECONDS * NSEC_PER_SEC;
    default:
        return IDLE_SECONDS * NSEC_PER_SEC;
    }
}

static void on_idle(LoopTimer *timer)
{
    Caller *caller = container_of(timer, Caller, idle);
    uint64_t end = caller->used + patience(caller);

    if (clock_now() < end && loop_timer_set(caller->served->egress->loop, timer, end, on_idle) == 0)
        return;
    if (caller->state != READS_HEAD && caller->state != LINGERS)
        caller_log(caller, "idle");
    caller_free(caller);
}

static int wait_for(Caller *caller)
{
    caller->used = clock_now();
    return loop_timer_set(caller->served->egress->loop, &caller->idle, caller->used + patience(caller),
                          on_idle);
}

void caller_log(const Caller *caller, const char *outcome)
{
    log_info("connection",
             "session=%s to=%s:%u sent=%" PRIu64 " received=%" PRIu64 " seconds=%.3f outcome=%s",
             caller->served->label, *caller->host ? caller->host : "?", caller->port, caller->sent,
             caller->received, (double)(clock_now() - caller->began) / NSEC_PER_SEC, outcome);
}

void caller_free(Caller *caller)
{
    Served *served = caller->served;
    int fd = caller->file.fd;

    if (caller->dial)
        dial_free(caller->dial);
    if (caller->exchange)
        exchange_free(take(caller->exchange));
    tunnel_end(caller);
    loop_timer_cancel(&caller->idle);
    if (caller->file.loop)
        loop_file_remove(&caller->file);
    close(fd);
    buf_deinit(&caller->in);
    buf_deinit(&caller->out);
    list_remove(&caller->link);
    free(caller);
    served->n--;
    served->egress->n--;
    served_look(served);
}

size_t caller_room(const Caller *caller)
{
    const Served *served = caller->served;
    const size_t least = caller->state == READS_HEAD ? HEAD_MAX : ROOM_LEAST;
    const size_t share = MIN(ROOM_OF_SANDBOX / served->n, ROOM_OF_ALL / served->egress->n);

    return MIN(MAX(share, least), ROOM);
}

bool receive(Caller *caller, int fd, Buf *buf, uint64_t *count)
{
    size_t room = caller_room(caller) - MIN(buf->size, caller_room(caller));
    uint8_t *to = buf_reserve(buf, room);
    ssize_t n;

    if (!to || room == 0)
        return to != NULL;
    n = recv(fd, to, room, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    buf_commit(buf, (size_t)n);
    *count += (size_t)n;
    caller->used = clock_now();
    served_count(caller->served, (size_t)n);
    return n > 0;
}

int pass(int to, Buf *buf, const void *bytes, size_t size)
{
    ssize_t n = buf->size == 0 ? send(to, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    return buf_append(buf, (const uint8_t *)bytes + MAX(n, 0), size - (size_t)MAX(n, 0));
}

/* ---- answers of our own ---- */

static const char *reason_of(unsigned status)
{
    return status == 403 ? "Forbidden" : status >= 500 ? "Bad Gateway" : "Bad Request";
}

/* Many programs show nothing of a refused tunnel but the first line: the sentence is there, too. */
void caller_refuse(Caller *caller, unsigned status, const char *format, ...)
{
    char sentence[PROBLEM_TEXT_MAX], head[PROBLEM_TEXT_MAX + 256];
    va_list arguments;
    int n;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof(sentence), format, arguments);
    va_end(arguments);
    caller_log(caller, sentence);
    n = snprintf(head, sizeof(head),
                 "HTTP/1.1 %u %s: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
                 "Connection: close\r\n\r\n",
                 status, reason_of(status), sentence, strlen(sentence) + 1);
    caller->keeps = false;
    if (buf_append(&caller->out, head, (size_t)n) < 0 ||
        buf_append(&caller->out, sentence, strlen(sentence)) < 0 || buf_append(&caller->out, "\n", 1) < 0)
        buf_clear(&caller->out);
    caller_next(caller);
}

void caller_next(Caller *caller)
{
    caller->state = caller->keeps ? READS_HEAD : LINGERS;
    caller->sent = caller->received = 0;
    caller->began = clock_now();
    *caller->host = '\0';
    wait_for(caller);
}

/* ---- what is asked for ---- */

bool caller_is_allowed(const Caller *caller)
{
    const Network *network = &caller->served->network;

    if (caller->state == LINGERS)
        return true;
    if (caller->relayed || network_relay(network))
        return false;
    if (caller->state == READS_HEAD)
        return true;
    if (network_is_binding_name(caller->host))
        return network_binding(network, caller->host) != NULL;
    return network_allows(network, caller->host, caller->port);
}

static void list_bindings(const Network *network, char *ret, size_t size)
{
    snprintf(ret, size, "%s", network->n_bindings ? "" : "none");
    for (size_t i = 0, at = 0; i < network->n_bindings && at < size; i++)
        at += (size_t)snprintf(ret + at, size - at, "%shttp://%s" NETWORK_DOMAIN "/", i ? ", " : "",
                               network->bindings[i].name);
}

static void ask_binding(Caller *caller, const HttpHead *head)
{
    const Network *network = &caller->served->network;
    const NetworkBinding *binding = network_binding(network, head->host);
    char names[512];

    if (binding && !head->connect && head->port == 80) {
        exchange_begin(caller, head, binding);
        return;
    }
    list_bindings(network, names, sizeof(names));
    if (binding)
        caller_refuse(caller, 403, "a binding is asked with http://%s/, without https and without a port",
                      head->host);
    else
        caller_refuse(caller, 403, "the session has no binding %s; it has: %s", head->host, names);
}

static void ask(Caller *caller, const HttpHead *head)
{
    const Served *served = caller->served;
    const char *open = strchr(head->host, ':') ? "[" : "", *close = *open ? "]" : "";

    if (served_is_exhausted(served))
        caller_refuse(
            caller, 403,
            "the session has sent and received as much as it may (option network_limit of limpetd)");
    else if (network_is_binding_name(head->host))
        ask_binding(caller, head);
    else if (!network_allows(&served->network, head->host, head->port))
        caller_refuse(
            caller, 403,
            "%s%s%s:%u is not allowed in this session; its owner can allow it with the network rule "
            "%s%s%s:%u",
            open, head->host, close, head->port, open, head->host, close, head->port);
    else if (head->connect)
        dial_begin(caller);
    else
        exchange_begin(caller, head, NULL);
}

static void read_head(Caller *caller)
{
    Problem problem = PROBLEM_NULL;
    unsigned status = 400;
    HttpHead head;
    ssize_t n = head_parse(&head, buf_head(&caller->in), caller->in.size, &status, &problem);

    if (n < 0) {
        caller_refuse(caller, status, "%s", problem.text);
        return;
    }
    if (n == 0) {
        caller->out_ended = caller->in_ended; /* in the middle of nothing */
        return;
    }
    memcpy(caller->host, head.host, sizeof(caller->host));
    caller->port = head.port;
    caller->keeps = head.keeps && !caller->in_ended;
    caller->state = DIALS;
    wait_for(caller);
    ask(caller, &head);
    buf_consume(&caller->in, (size_t)n);
}

/* Nothing of it is looked at here. */
static void begin_relayed(Caller *caller, const NetworkBinding *relay)
{
    caller->relayed = true;
    caller->state = DIALS;
    memcpy(caller->host, relay->host, sizeof(caller->host));
    caller->port = relay->port;
    dial_begin(caller);
    caller_go_on(caller);
}

/* ---- from step to step ---- */

static uint32_t awaited(const Caller *caller)
{
    bool reads = caller->in.size < caller_room(caller) && !caller->in_ended;

    switch (caller->state) {
    case DIALS:
        reads = false;
        break;
    case EXCHANGES:
        reads = reads && exchange_wants(caller);
        break;
    default:
        break;
    }
    return (reads ? EPOLLIN : 0) | (caller->out.size > 0 ? EPOLLOUT : 0);
}

/* Ends the answer, and then reads and forgets what still comes, or the answer would be lost. False when both
 * directions have ended. */
static bool linger(Caller *caller)
{
    buf_clear(&caller->in);
    if (caller->out.size == 0 && !caller->out_ended) {
        shutdown(caller->file.fd, SHUT_WR);
        caller->out_ended = true;
    }
    return !(caller->out_ended && caller->in_ended);
}

static bool step(Caller *caller)
{
    if (caller->state == READS_HEAD && caller->out.size == 0) {
        read_head(caller);
        if (caller->out_ended && caller->state == READS_HEAD)
            return false;
    }
    if (caller->state == TUNNELS)
        tunnel_pump(caller);
    if (caller->state == EXCHANGES)
        exchange_take_body(caller);
    return true;
}

void caller_go_on(Caller *caller)
{
    ConnectionState before;
    bool lives;

    do {
        before = caller->state;
        /* The bytes that wait are sent first: only then is there another request, which may have come
         * already. */
        lives = buf_send(&caller->out, caller->file.fd) >= 0 && step(caller) &&
                buf_send(&caller->out, caller->file.fd) >= 0;
        if (lives && caller->state == EXCHANGES && caller->out.size < caller_room(caller))
            exchange_has_room(caller);
        if (lives && caller->state == LINGERS)
            lives = linger(caller);
        if (served_is_exhausted(caller->served) && (caller->state == TUNNELS || caller->state == EXCHANGES)) {
            caller_log(caller, "over network_limit");
            lives = false;
        }
    } while (lives && caller->state != before);
    if (!lives)
        caller_free(caller);
    else if (caller->file.loop)
        loop_file_change(&caller->file, awaited(caller));
}

static void leave(Caller *caller)
{
    if (caller->state != READS_HEAD && caller->state != LINGERS)
        caller_log(caller, "left");
    caller_free(caller);
}

/* Handles what the caller's descriptor reports. Where both directions have ended the kernel keeps reporting
 * it: the descriptor is removed from the loop after the first time. */
static void on_ready(LoopFile *file, uint32_t events)
{
    Caller *caller = container_of(file, Caller, file);

    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP) &&
        !(caller->state == TUNNELS ? tunnel_take(caller)
                                   : receive(caller, file->fd, &caller->in, &caller->sent)))
        caller->in_ended = true;
    if (events & EPOLLERR || (events & EPOLLHUP && caller->state != TUNNELS)) {
        leave(caller);
        return;
    }
    if (events & EPOLLHUP && caller->in_ended)
        loop_file_remove(file);
    caller_go_on(caller);
}

/* Makes room for one more connection of that sandbox: if there are as many as there may be, the one that was
 * used least lately, of the sandbox that has most of them, ends. Who has few can always have another one. */
static void make_room(Served *asking)
{
    Egress *egress = asking->egress;
    Served *served, *greatest = asking;
    Caller *caller, *least = NULL;

    if (egress->n < egress->most)
        return;
    list_foreach (served, &egress->served, Served, link)
        if (served->n > greatest->n)
            greatest = served;
    list_foreach (caller, &greatest->callers, Caller, link)
        if (!least || caller->used < least->used)
            least = caller;
    if (!least)
        return;
    caller_log(least, "makes room for others");
    caller_free(least);
}

void caller_begin(Served *served, int fd)
{
    const NetworkBinding *relay = network_relay(&served->network);
    Caller *caller = calloc(1, sizeof(*caller));

    make_room(served);
    if (!caller || loop_file_add(served->egress->loop, &caller->file, fd, EPOLLIN, on_ready) < 0) {
        close(fd);
        free(caller);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    caller->served = served;
    caller->peer.fd = -1;
    caller->began = clock_now();
    list_append(&served->callers, &caller->link);
    served->n++;
    served->egress->n++;
    if (wait_for(caller) < 0)
        caller_free(caller);
    else if (relay)
        begin_relayed(caller, relay);
}
