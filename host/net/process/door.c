/* The door: the socket that clients connect to, who is let in, and the lines of those who were. libzmq asks
 * for the admission of a peer once a handshake shows that the peer has its key: RFC 27. */
#include <errno.h>
#include <string.h>

#include "host/net/process/internal.h"
#include "host/net/protocol.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- who is let in ---- */

#define ENDPOINT "inproc://zeromq.zap.01"
/* Frames: version, number, domain, address, routing id, mechanism, and the key. */
#define FRAMES 7

static int zap_open(Door *door)
{
    const int no_limit = 0;

    door->zap = zmq_socket(door->context, ZMQ_REP);
    if (!door->zap || zmq_setsockopt(door->zap, ZMQ_RCVHWM, &no_limit, sizeof(no_limit)) < 0 ||
        zmq_bind(door->zap, ENDPOINT) < 0)
        return -errno;
    return 0;
}

typedef struct Asked {
    zmq_msg_t frames[FRAMES];
    size_t n;
} Asked;

static void asked_deinit(Asked *asked)
{
    for (size_t i = 0; i < FRAMES; i++)
        zmq_msg_close(&asked->frames[i]);
}

/* False: nothing was asked. */
static bool take_question(Door *door, Asked *ret)
{
    bool more = true;

    for (size_t i = 0; i < FRAMES; i++)
        zmq_msg_init(&ret->frames[i]);
    for (ret->n = 0; more && ret->n < FRAMES; ret->n++) {
        if (zmq_msg_recv(&ret->frames[ret->n], door->zap, ZMQ_DONTWAIT) < 0)
            return false;
        more = zmq_msg_more(&ret->frames[ret->n]);
    }
    return true;
}

/* Why not, or NULL. */
static const char *refusal(const Door *door, const char *key)
{
    const AuthorizedKey *authorized = authorized_find(&door->keys, key);

    if (!authorized)
        return "the key is not authorized";
    return lines_of(door, key) >= authorized->connections ? "the key has as many connections as it may"
                                                          : NULL;
}

static void reply(Door *door, const void *bytes, size_t size, bool more)
{
    zmq_send(door->zap, bytes, size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
}

static void say(Door *door, Asked *asked, const char *status, const char *text, const char *user)
{
    reply(door, "1.0", 3, true);
    reply(door, zmq_msg_data(&asked->frames[1]), zmq_msg_size(&asked->frames[1]), true);
    reply(door, status, 3, true);
    reply(door, text, strlen(text), true);
    reply(door, user, strlen(user), true);
    reply(door, "", 0, false);
}

static void answer(Door *door, Asked *asked)
{
    char key[Z85_KEY_SIZE + 1], address[65] = "";
    const char *why;

    if (asked->n != FRAMES || zmq_msg_size(&asked->frames[6]) != 32) {
        say(door, asked, "400", "not CURVE", "");
        return;
    }
    z85_encode_key(key, zmq_msg_data(&asked->frames[6]));
    why = refusal(door, key);
    memcpy(address, zmq_msg_data(&asked->frames[3]),
           MIN(zmq_msg_size(&asked->frames[3]), sizeof(address) - 1));
    if (why)
        door_complain(door, why, address);
    say(door, asked, why ? "400" : "200", why ? why : "OK", why ? "" : key);
}

static void zap_answer(Door *door)
{
    for (bool there = true; there;) {
        Asked asked _cleanup_(asked_deinit);

        there = take_question(door, &asked);
        if (there)
            answer(door, &asked);
    }
}

/* ---- connections ---- */

/* Messages taken in one turn of the loop. */
#define BATCH 64

#define HANDSHAKE_MSEC 5000
/* A peer that is gone without a word is noticed. */
#define HEARTBEAT_MSEC 15000
#define SILENCE_MSEC   45000
#define BACKLOG        256

#define MONITOR  "inproc://monitor"
#define COMPLAIN (10 * NSEC_PER_SEC)

void door_complain(Door *door, const char *why, const char *address)
{
    uint64_t now = clock_now();

    if (door->complained && now - door->complained < COMPLAIN)
        return;
    door->complained = now;
    log_warn("network peer refused", "address=%s reason=%s", address, why);
}

/* ---- what libzmq has ---- */

/* False: there is no more. */
static bool take_event(Door *door)
{
    zmq_msg_t head, address;
    uint16_t event;
    uint32_t value;
    bool told;

    zmq_msg_init(&head);
    zmq_msg_init(&address);
    told = zmq_msg_recv(&head, door->monitor, ZMQ_DONTWAIT) == sizeof(event) + sizeof(value) &&
           zmq_msg_recv(&address, door->monitor, ZMQ_DONTWAIT) >= 0;
    if (told) {
        memcpy(&event, zmq_msg_data(&head), sizeof(event));
        memcpy(&value, (char *)zmq_msg_data(&head) + sizeof(event), sizeof(value));
        if (event == ZMQ_EVENT_ACCEPTED)
            line_begin(door, (int)value);
        else if (event == ZMQ_EVENT_DISCONNECTED)
            line_end(door, (int)value);
    }
    zmq_msg_close(&head);
    zmq_msg_close(&address);
    return told;
}

void door_take_events(Door *door)
{
    while (take_event(door))
        ;
}

/* The rest of a message of several frames, which the protocol does not have. Whether there was any. */
static bool drop_rest(Door *door, zmq_msg_t *message)
{
    bool several = zmq_msg_more(message);

    for (bool more = several; more;) {
        zmq_msg_t part;

        zmq_msg_init(&part);
        more = zmq_msg_recv(&part, door->router, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&part);
        zmq_msg_close(&part);
    }
    return several;
}

static void take_body(Door *door, zmq_msg_t *routing, zmq_msg_t *body)
{
    bool several = drop_rest(door, body);
    NetLine *line = line_of(door, routing, body);

    if (!line)
        return;
    if (several)
        line_drop(line, "it sent a message of several frames");
    else
        line_take(line, zmq_msg_data(body), zmq_msg_size(body));
}

/* False: there is no more. */
static bool take_message(Door *door)
{
    zmq_msg_t routing, body;
    bool taken;

    zmq_msg_init(&routing);
    zmq_msg_init(&body);
    taken = zmq_msg_recv(&routing, door->router, ZMQ_DONTWAIT) >= 0;
    if (taken && zmq_msg_more(&routing) && zmq_msg_recv(&body, door->router, ZMQ_DONTWAIT) >= 0)
        take_body(door, &routing, &body);
    zmq_msg_close(&routing);
    zmq_msg_close(&body);
    return taken;
}

static void look(Door *door)
{
    unsigned n = 0;

    while (n < BATCH && take_message(door))
        n++;
    if (n == BATCH)
        door_look_again(door);
    lines_shut_dropped(door);
}

static void on_look(LoopIdle *idle)
{
    look(container_of(idle, Door, look));
}

void door_look_again(Door *door)
{
    loop_idle_add(door->loop, &door->look, on_look);
}

static void on_router(LoopFile *file, uint32_t events)
{
    look(container_of(file, Door, router_file));
}

static void on_monitor(LoopFile *file, uint32_t events)
{
    Door *door = container_of(file, Door, monitor_file);

    door_take_events(door);
    door_look_again(door);
}

static void on_zap(LoopFile *file, uint32_t events)
{
    zap_answer(container_of(file, Door, zap_file));
}

static int watch(Door *door, void *socket, LoopFile *file, void (*on_ready)(LoopFile *, uint32_t))
{
    size_t size = sizeof(int);
    int fd;

    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) < 0)
        return -errno;
    return loop_file_add(door->loop, file, fd, EPOLLIN, on_ready);
}

/* ---- the controller ---- */

/* Whoever has come before it was known who may waited for this, and was not turned away. */
static int begin_zap(Door *door)
{
    int r = watch(door, door->zap, &door->zap_file, on_zap);

    if (r == 0)
        zap_answer(door);
    return r;
}

static int on_keys(Door *door, Descriptors *descriptors)
{
    int fd _cleanup_(closep) = descriptors_take(descriptors, 0);
    Problem problem = PROBLEM_NULL;
    Authorized keys;

    if (fd < 0 || authorized_read(&keys, fd, &problem) < 0)
        return -EBADMSG;
    authorized_deinit(&door->keys);
    door->keys = keys;
    lines_check(door);
    return door->zap_file.loop ? 0 : begin_zap(door);
}

static int on_log(Descriptors *descriptors)
{
    int log _cleanup_(closep) = descriptors_take(descriptors, 0);

    return log < 0 || dup2(log, STDERR_FILENO) < 0 ? -EBADMSG : 0;
}

static int on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    Door *door = container_of(ipc, Door, ipc);

    switch ((NetKind)message->kind) {
    case NET_KEYS:
        return on_keys(door, descriptors);
    case NET_LOG:
        return on_log(descriptors);
    default:
        return -EBADMSG;
    }
}

static void on_lost(Ipc *ipc, int error)
{
    Door *door = container_of(ipc, Door, ipc);

    door->error = error == -EPIPE ? 0 : error;
    loop_stop(door->loop, 0);
}

static const IpcEvents events = {.message = on_message, .lost = on_lost};

/* ---- beginning ---- */

static int set(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

typedef struct Setting {
    int option, value;
} Setting;

/* Messages are not counted: their bytes are, in each line. */
static int set_up_router(Door *door, int listening, const Certificate *certificate)
{
    const Setting settings[] = {
        {ZMQ_CURVE_SERVER, 1},
        {ZMQ_USE_FD, listening},
        {ZMQ_MAXMSGSIZE, LIMIT_CLIENT_FRAME},
        {ZMQ_ROUTER_MANDATORY, 1},
        {ZMQ_SNDHWM, 0},
        {ZMQ_RCVHWM, 8},
        {ZMQ_LINGER, 0},
        {ZMQ_HANDSHAKE_IVL, HANDSHAKE_MSEC},
        {ZMQ_HEARTBEAT_IVL, HEARTBEAT_MSEC},
        {ZMQ_HEARTBEAT_TIMEOUT, SILENCE_MSEC},
        {ZMQ_BACKLOG, BACKLOG},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(settings); i++) {
        const int64_t most = settings[i].value;

        if (settings[i].option == ZMQ_MAXMSGSIZE)
            r = zmq_setsockopt(door->router, ZMQ_MAXMSGSIZE, &most, sizeof(most)) < 0 ? -errno : 0;
        else
            r = set(door->router, settings[i].option, settings[i].value);
    }
    if (r == 0 &&
        (zmq_setsockopt(door->router, ZMQ_CURVE_SECRETKEY, certificate->secret_key, Z85_KEY_SIZE + 1) < 0 ||
         zmq_setsockopt(door->router, ZMQ_ZAP_DOMAIN, "limpet", strlen("limpet")) < 0))
        r = -errno;
    return r;
}

/* The address is that of the descriptor, whatever is said. */
static int begin_router(Door *door, int listening, const Certificate *certificate)
{
    int r;

    door->router = zmq_socket(door->context, ZMQ_ROUTER);
    door->monitor = zmq_socket(door->context, ZMQ_PAIR);
    r = door->router && door->monitor ? set_up_router(door, listening, certificate) : -errno;
    if (r == 0)
        r = set(door->monitor, ZMQ_RCVHWM, 0);
    if (r == 0 &&
        (zmq_socket_monitor(door->router, MONITOR, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) < 0 ||
         zmq_connect(door->monitor, MONITOR) < 0 || zmq_bind(door->router, "tcp://127.0.0.1:1") < 0))
        r = -errno;
    return r;
}

static int begin(Door *door, int controller, int listening, const Certificate *certificate)
{
    int r = loop_new(&door->loop);

    if (r == 0)
        r = ipc_open(&door->ipc, door->loop, controller, &ipc_messages, &events);
    if (r == 0 && !(door->context = zmq_ctx_new()))
        r = -errno;
    if (r == 0)
        r = zap_open(door);
    if (r == 0)
        r = begin_router(door, listening, certificate);
    if (r == 0)
        r = watch(door, door->monitor, &door->monitor_file, on_monitor);
    if (r == 0)
        r = watch(door, door->router, &door->router_file, on_router);
    if (r == 0) {
        door_take_events(door);
        door_look_again(door);
    }
    return r;
}

/* Serves until the controller has gone. Whatever libzmq holds ends with the process. */
int door_serve(int controller, int listening, const Certificate *certificate, uint64_t most, Problem *problem)
{
    static Door door;
    int r;

    door.most = most;
    list_init(&door.dropped);
    r = begin(&door, controller, listening, certificate);
    if (r == 0) {
        log_info("serving a network", "key=%s", certificate->public_key);
        r = loop_run(door.loop);
    }
    if (r == 0)
        r = door.error;
    lines_free(&door);
    ipc_close(&door.ipc);
    authorized_deinit(&door.keys);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "the network process ends: %s", strerror(-r)) : 0;
}
