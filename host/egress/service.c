#include "host/egress/service.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "host/egress/internal.h"
#include "host/egress/protocol.h"
#include "host/egress/sealed.h"
#include "host/network/strangers.h"
#include "proto/base/clock.h"
#include "proto/base/fdio.h"
#include "proto/base/log.h"

#define KEY_LEAST 32u
#define KEY_MOST  256u

/* Connections that have not said yet what they may reach, and the time they have for it. */
#define ARRIVALS_MOST   256u
#define ARRIVAL_SECONDS 10
/* Time for which a session is known after its last connection. */
#define KNOWN_SECONDS 60
/* Pause after the kernel gave no descriptor. */
#define PAUSE_NSEC (100 * NSEC_PER_MSEC)

typedef struct EgressService {
    Egress egress;
    LoopFile listening;
    LoopTimer pause;
    LoopSignals signals;
    Strangers arrivals;
    List known;
    uint64_t last_number;
    char key_bytes[KEY_MOST];
    Text key;
} EgressService;

/* A connection that has not said all of its rules. */
typedef struct Arrival {
    Stranger stranger;
    EgressService *service;
    LoopFile file;
    LoopTimer limit;
    Buf in;
} Arrival;

/* The session of sealed rules. */
typedef struct Known {
    List link;
    EgressService *service;
    Served *served;
    uint8_t tag[SEALED_TAG];
    LoopTimer idle;
} Known;

/* ---- sessions ---- */

static void known_free(Known *known)
{
    loop_timer_cancel(&known->idle);
    list_remove(&known->link);
    if (known->served)
        served_free(known->served);
    free(known);
}

static void on_known_idle(LoopTimer *timer)
{
    Known *known = container_of(timer, Known, idle);

    if (known->served->n > 0 &&
        loop_timer_set(known->service->egress.loop, timer, clock_now() + KNOWN_SECONDS * NSEC_PER_SEC,
                       on_known_idle) == 0)
        return;
    known_free(known);
}

static int begin_session(Known *known, const Buf *rules, Problem *problem)
{
    EgressService *service = known->service;
    Network network _cleanup_(network_deinit) = {0};
    msgpack_unpacked map;
    EgressSealed said;
    int r = wire_check(buf_head(rules), rules->size);

    if (r < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "they are no rules");
    msgpack_unpacked_init(&map);
    if (msgpack_unpack_next(&map, (const char *)buf_head(rules), rules->size, NULL) !=
            MSGPACK_UNPACK_SUCCESS ||
        map.data.type != MSGPACK_OBJECT_MAP)
        r = problem_set(problem, ERR_BAD_REQUEST, "they are no rules");
    if (r == 0)
        r = body_decode(&said, EgressSealed, &map.data.via.map, problem);
    if (r == 0)
        r = network_read(&network, &said.allow, &said.bindings, problem);
    if (r == 0 && network_relay(&network))
        r = problem_set(problem, ERR_BAD_REQUEST, "they lead to yet another one");
    if (r == 0 && served_new(&service->egress, ++service->last_number, -1, &known->served) < 0)
        r = problem_set(problem, ERR_INTERNAL, "out of memory");
    if (r == 0)
        served_set(known->served, said.label, 0, &network);
    msgpack_unpacked_destroy(&map);
    return r;
}

static Known *find_known(EgressService *service, const uint8_t tag[static SEALED_TAG])
{
    Known *known;

    list_foreach (known, &service->known, Known, link)
        if (memcmp(known->tag, tag, SEALED_TAG) == 0)
            return known;
    return NULL;
}

/* Returns the session that the sealed text is of, or NULL with the problem set. */
static Known *know(EgressService *service, Text sealed, Problem *problem)
{
    Buf rules _cleanup_(buf_deinit) = BUF_NULL;
    uint8_t tag[SEALED_TAG];
    Known *known;
    int r = sealed_open(&rules, tag, service->key, sealed);

    if (r < 0) {
        problem_set(problem, ERR_DENIED, r == -EBADMSG ? "another key has sealed them" : "out of memory");
        return NULL;
    }
    known = find_known(service, tag);
    if (known)
        return known;
    known = calloc(1, sizeof(*known));
    if (!known) {
        problem_set(problem, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    known->service = service;
    memcpy(known->tag, tag, SEALED_TAG);
    list_append(&service->known, &known->link);
    r = begin_session(known, &rules, problem);
    if (r == 0 && loop_timer_set(service->egress.loop, &known->idle,
                                 clock_now() + KNOWN_SECONDS * NSEC_PER_SEC, on_known_idle) < 0)
        r = problem_set(problem, ERR_INTERNAL, "out of memory");
    if (rules.data)
        explicit_bzero(rules.data, rules.capacity);
    if (r == 0)
        return known;
    known_free(known);
    return NULL;
}

/* ---- connections ---- */

/* Frees it; returns its descriptor. */
static int arrival_free(Arrival *arrival)
{
    EgressService *service = arrival->service;
    int fd = arrival->file.fd;

    loop_timer_cancel(&arrival->limit);
    if (arrival->file.loop)
        loop_file_remove(&arrival->file);
    strangers_remove(&service->arrivals, &arrival->stranger);
    buf_deinit(&arrival->in);
    free(arrival);
    return fd;
}

static void on_arrival_late(LoopTimer *timer)
{
    close(arrival_free(container_of(timer, Arrival, limit)));
}

/* Bytes that are still to come: first of the size, then of the text. -EMSGSIZE where it is too long. */
static ssize_t missing(const Buf *in)
{
    const uint8_t *at = buf_head(in);
    size_t size = 4;

    if (in->size >= size)
        size += (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
    return size > 4 + SEALED_MOST ? -EMSGSIZE : (ssize_t)(size - in->size);
}

/* Refuses a connection, which waits for the answer to a request of HTTP. */
static void refuse(int fd, const char *why)
{
    char answer[PROBLEM_TEXT_MAX + 128];
    int n = snprintf(answer, sizeof(answer),
                     "HTTP/1.1 502 Bad Gateway: limpet-egress refuses the rules of this session: %s\r\n"
                     "Content-Length: 0\r\nConnection: close\r\n\r\n",
                     why);

    log_warn("connection refused", "reason=%s", why);
    send(fd, answer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

static void admit(Arrival *arrival)
{
    Problem problem = PROBLEM_NULL;
    const Text sealed = {(const char *)buf_head(&arrival->in) + 4, arrival->in.size - 4};
    Known *known = know(arrival->service, sealed, &problem);
    int fd = arrival_free(arrival);

    if (known && known->served->n >= CONNECTIONS_MOST)
        problem_set(&problem, ERR_LIMIT_REACHED, "it has too many connections");
    if (known && problem.code == ERR_NONE)
        caller_begin(known->served, fd);
    else
        refuse(fd, problem.text);
}

static void on_arrival_ready(LoopFile *file, uint32_t events)
{
    Arrival *arrival = container_of(file, Arrival, file);
    ssize_t n;

    while ((n = missing(&arrival->in)) > 0) {
        n = buf_read_fd(&arrival->in, file->fd, (size_t)n);
        if (n == -EAGAIN || n == -EINTR)
            return;
        if (n <= 0)
            break;
    }
    if (missing(&arrival->in) == 0)
        admit(arrival);
    else
        close(arrival_free(arrival));
}

/* Code in a pod that connects again and again takes nothing from other pods. */
static void make_room(EgressService *service)
{
    Stranger *excess = strangers_excess(&service->arrivals, ARRIVALS_MOST);

    if (excess)
        close(arrival_free(container_of(excess, Arrival, stranger)));
}

static void take_in(EgressService *service, int fd)
{
    Loop *loop = service->egress.loop;
    Arrival *arrival = calloc(1, sizeof(*arrival));

    if (!arrival) {
        close(fd);
        return;
    }
    arrival->service = service;
    arrival->file.fd = fd;
    if (strangers_add(&service->arrivals, &arrival->stranger, fd) < 0 ||
        loop_file_add(loop, &arrival->file, fd, EPOLLIN, on_arrival_ready) < 0 ||
        loop_timer_set(loop, &arrival->limit, clock_now() + ARRIVAL_SECONDS * NSEC_PER_SEC, on_arrival_late) <
            0)
        close(arrival_free(arrival));
    make_room(service);
}

static void on_pause_over(LoopTimer *timer)
{
    loop_file_change(&container_of(timer, EgressService, pause)->listening, EPOLLIN);
}

static void on_connection(LoopFile *file, uint32_t events)
{
    EgressService *service = container_of(file, EgressService, listening);
    int fd = accept4(file->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        take_in(service, fd);
    else if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) &&
             loop_timer_set(service->egress.loop, &service->pause, clock_now() + PAUSE_NSEC, on_pause_over) ==
                 0)
        loop_file_change(&service->listening, 0);
}

/* ---- its beginning and end ---- */

static int read_key(EgressService *service, const char *path, Problem *problem)
{
    int fd _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -errno : read_whole(fd, service->key_bytes, sizeof(service->key_bytes));

    if (n < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot read the key %s (option egress_key): %s", path,
                           strerror((int)-n));
    while (n > 0 && service->key_bytes[n - 1] <= ' ')
        n--;
    service->key = (Text){service->key_bytes, (size_t)n};
    if (service->key.size >= KEY_LEAST && service->key.size < KEY_MOST)
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST, "the key %s (option egress_key) has %u to %u characters",
                       path, KEY_LEAST, KEY_MOST - 1);
}

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    loop_stop(container_of(signals, EgressService, signals)->egress.loop, 0);
}

static int begin(EgressService *service, int listening)
{
    Egress *egress = &service->egress;
    sigset_t ends;
    int r = egress_begin(egress);

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    if (r == 0)
        r = loop_signals_add(egress->loop, &service->signals, &ends, on_signal);
    return r < 0 ? r : loop_file_add(egress->loop, &service->listening, listening, EPOLLIN, on_connection);
}

static void end(EgressService *service)
{
    Stranger *arrival;
    List *link;

    while ((arrival = strangers_excess(&service->arrivals, 0)))
        close(arrival_free(container_of(arrival, Arrival, stranger)));
    while ((link = list_first(&service->known)))
        known_free(list_entry(link, Known, link));
    explicit_bzero(service->key_bytes, sizeof(service->key_bytes));
}

int egress_service_run(int listening, const char *key, const Account *account, Problem *problem)
{
    static EgressService service;
    Confinement rights = {.readable = {EGRESS_READABLE}, .dials = true, .keeps_account = !account};
    int r = read_key(&service, key, problem);

    list_init(&service.known);
    if (account)
        rights.account = *account;
    if (r == 0)
        r = rights_drop(&rights, getppid(), problem);
    if (r < 0)
        return r;
    r = begin(&service, listening);
    if (r == 0) {
        log_info("serves rules that are sealed", "key=%s", key);
        r = loop_run(service.egress.loop);
    }
    end(&service);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "limpet-egress ends: %s", strerror(-r)) : 0;
}
