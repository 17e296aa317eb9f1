#include "clients/c/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#ifdef LIMPET_NET
#include <dlfcn.h>
#include <pthread.h>

#include "proto/base/clock.h"
#include "proto/limits.h"
#endif

/* ---- keys ---- */

static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value && *value ? value : NULL;
}

void keys_path(char ret[static PATH_MAX])
{
    const char *given = environment("LIMPET_KEY"), *config = environment("XDG_CONFIG_HOME");
    const char *home = environment("HOME");

    if (given)
        snprintf(ret, PATH_MAX, "%s", given);
    else if (config)
        snprintf(ret, PATH_MAX, "%s/limpet/limpet.key_secret", config);
    else
        snprintf(ret, PATH_MAX, "%s/.config/limpet/limpet.key_secret", home ? home : "");
}

static int read_own(Certificate *ret, Problem *problem)
{
    int fd _cleanup_(closep) = -1;
    char path[PATH_MAX];
    int r;

    keys_path(path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    r = fd < 0 ? -errno : certificate_read(ret, fd);
    if (r == 0)
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST,
                       "%s has no pair of keys (%s); make one with `limpet keygen`, and have the public key "
                       "authorized by whoever runs the controller",
                       path, strerror(-r));
}

int keys_find(RemoteKeys *ret, Problem *problem)
{
    const char *server = environment("LIMPET_SERVER_KEY");
    uint8_t key[32];

    if (!server || strlen(server) != Z85_KEY_SIZE || !z85_decode_key(key, server))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "set LIMPET_SERVER_KEY, or --server-key, to the public key of the controller: the %u "
            "characters that `limpetd --check` prints there",
            Z85_KEY_SIZE);
    memcpy(ret->server, server, Z85_KEY_SIZE + 1);
    return read_own(&ret->own, problem);
}

bool remote_is(const char *address)
{
    return strncmp(address, "tcp://", strlen("tcp://")) == 0;
}

#ifdef LIMPET_NET

/* ---- libzmq ---- */

#define LIBRARY "libzmq.so.5"

static ZmqLibrary library;
static bool loaded;

/* A function as the pointer that dlsym() has: POSIX has both in the same representation. */
static bool find(void *handle, const char *name, void *ret, size_t size)
{
    void *symbol = dlsym(handle, name);

    memcpy(ret, &symbol, size);
    return symbol;
}

static void load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    loaded = handle;
#define ZMQ_FIND(name) loaded = loaded && find(handle, #name, &library.name, sizeof(library.name));
    ZMQ_FUNCTIONS(ZMQ_FIND)
#undef ZMQ_FIND
}

const ZmqLibrary *zmq_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return loaded ? &library : NULL;
}

/* ---- the connection ---- */

#define MONITOR        "inproc://monitor"
#define HEARTBEAT_MSEC 15000
#define SILENCE_MSEC   45000
#define EVENTS                                                                                               \
    (ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |                                  \
     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED |        \
     ZMQ_EVENT_CLOSED)

struct RemotePeer {
    const ZmqLibrary *zmq;
    void *context, *socket, *monitor;
    bool ended; /* libzmq has no connection any more; what it carried may still be there */
};

RemotePeer *remote_free(RemotePeer *remote)
{
    if (!remote)
        return NULL;
    if (remote->monitor)
        remote->zmq->zmq_close(remote->monitor);
    if (remote->socket)
        remote->zmq->zmq_close(remote->socket);
    if (remote->context)
        remote->zmq->zmq_ctx_term(remote->context);
    free(remote);
    return NULL;
}

/* ---- connecting ---- */

typedef struct SocketSetting {
    int option;
    const void *value;
    size_t size;
} SocketSetting;

static int set_up(const RemotePeer *remote, const RemoteKeys *keys)
{
    const int none = 0, never = -1, heartbeat = HEARTBEAT_MSEC, silence = SILENCE_MSEC, yes = 1;
    const int64_t most = LIMIT_GUEST_FRAME;
    const SocketSetting settings[] = {
        {ZMQ_CURVE_SERVERKEY, keys->server, sizeof(keys->server)},
        {ZMQ_CURVE_PUBLICKEY, keys->own.public_key, sizeof(keys->own.public_key)},
        {ZMQ_CURVE_SECRETKEY, keys->own.secret_key, sizeof(keys->own.secret_key)},
        {ZMQ_LINGER, &none, sizeof(none)},
        {ZMQ_SNDHWM, &none, sizeof(none)},
        {ZMQ_RECONNECT_IVL, &never, sizeof(never)},
        {ZMQ_MAXMSGSIZE, &most, sizeof(most)},
        {ZMQ_HEARTBEAT_IVL, &heartbeat, sizeof(heartbeat)},
        {ZMQ_HEARTBEAT_TIMEOUT, &silence, sizeof(silence)},
        {ZMQ_IPV6, &yes, sizeof(yes)},
    };

    for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
        if (remote->zmq->zmq_setsockopt(remote->socket, settings[i].option, settings[i].value,
                                        settings[i].size) < 0)
            return -errno;
    return 0;
}

static int begin(RemotePeer *remote, const char *address, const RemoteKeys *keys)
{
    const ZmqLibrary *zmq = remote->zmq;
    int r;

    if (!(remote->context = zmq->zmq_ctx_new()) ||
        !(remote->socket = zmq->zmq_socket(remote->context, ZMQ_DEALER)) ||
        !(remote->monitor = zmq->zmq_socket(remote->context, ZMQ_PAIR)))
        return -errno;
    r = set_up(remote, keys);
    if (r == 0 &&
        (zmq->zmq_socket_monitor(remote->socket, MONITOR, EVENTS) < 0 ||
         zmq->zmq_connect(remote->monitor, MONITOR) < 0 || zmq->zmq_connect(remote->socket, address) < 0))
        r = -errno;
    return r;
}

/* The number of what has happened, or 0. */
static unsigned take_event(const RemotePeer *remote)
{
    const ZmqLibrary *zmq = remote->zmq;
    uint16_t event = 0;

    for (int part = 0; part < 2; part++) {
        zmq_msg_t message;
        bool told;

        zmq->zmq_msg_init(&message);
        told = zmq->zmq_msg_recv(&message, remote->monitor, ZMQ_DONTWAIT) >= 0;
        if (told && part == 0 && zmq->zmq_msg_size(&message) >= sizeof(event))
            memcpy(&event, zmq->zmq_msg_data(&message), sizeof(event));
        zmq->zmq_msg_close(&message);
        if (!told)
            break;
    }
    return event;
}

static int outcome(unsigned event)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return 0;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return -EACCES;
    case ZMQ_EVENT_CLOSED:
        return -ECONNREFUSED;
    default:
        return -EKEYREJECTED;
    }
}

static int wait_for_handshake(const RemotePeer *remote, uint64_t deadline)
{
    unsigned event;

    while (!(event = take_event(remote))) {
        zmq_pollitem_t item = {.socket = remote->monitor, .events = ZMQ_POLLIN};
        uint64_t now = clock_now();

        if (deadline && now >= deadline)
            return -ETIMEDOUT;
        remote->zmq->zmq_poll(&item, 1, deadline ? (long)((deadline - now) / NSEC_PER_MSEC) + 1 : -1);
    }
    return outcome(event);
}

int remote_open(RemotePeer **ret, const char *address, const RemoteKeys *keys, uint64_t deadline)
{
    RemotePeer *remote _cleanup_(remote_freep) = calloc(1, sizeof(*remote));
    int r;

    if (!remote)
        return -ENOMEM;
    remote->zmq = zmq_library();
    if (!remote->zmq)
        return -ENOSYS;
    r = begin(remote, address, keys);
    if (r == 0)
        r = wait_for_handshake(remote, deadline);
    if (r == 0)
        *ret = take(remote);
    return r;
}

/* ---- messages ---- */

static void note_end(RemotePeer *remote)
{
    unsigned event;

    while ((event = take_event(remote)))
        remote->ended |= event != ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
}

bool remote_has_ended(RemotePeer *remote)
{
    note_end(remote);
    return remote->ended;
}

int remote_send(RemotePeer *remote, const void *bytes, size_t size)
{
    if (remote->zmq->zmq_send(remote->socket, bytes, size, ZMQ_DONTWAIT) >= 0)
        return 0;
    return errno == EAGAIN ? -ECONNRESET : -errno; /* EAGAIN: nobody to send to */
}

/* 1, or 0 where there is none. */
static int take_message(const RemotePeer *remote, Buf *ret)
{
    const ZmqLibrary *zmq = remote->zmq;
    zmq_msg_t message;
    int r = 0;

    zmq->zmq_msg_init(&message);
    if (zmq->zmq_msg_recv(&message, remote->socket, ZMQ_DONTWAIT) >= 0) {
        r = buf_append(ret, zmq->zmq_msg_data(&message), zmq->zmq_msg_size(&message));
        r = r < 0 ? r : 1;
    }
    zmq->zmq_msg_close(&message);
    return r;
}

/* Until something has happened. 0, -EINTR or -ETIMEDOUT. */
static int wait_for_more(RemotePeer *remote, int wake_fd, uint64_t deadline)
{
    zmq_pollitem_t items[] = {{.socket = remote->socket, .events = ZMQ_POLLIN},
                              {.socket = remote->monitor, .events = ZMQ_POLLIN},
                              {.fd = wake_fd, .events = ZMQ_POLLIN}};
    uint64_t now = deadline ? clock_now() : 0;

    if (deadline && now >= deadline)
        return -ETIMEDOUT;
    remote->zmq->zmq_poll(items, wake_fd < 0 ? 2 : 3,
                          deadline ? (long)((deadline - now) / NSEC_PER_MSEC) + 1 : -1);
    if (items[1].revents)
        note_end(remote);
    return items[2].revents && !items[0].revents ? -EINTR : 0;
}

int remote_receive(RemotePeer *remote, int wake_fd, uint64_t deadline, Buf *ret)
{
    for (;;) {
        int r = take_message(remote, ret);

        if (r != 0)
            return MIN(r, 0);
        if (remote->ended)
            return -ECONNRESET;
        r = wait_for_more(remote, wake_fd, deadline);
        if (r < 0)
            return r;
    }
}
#else
int remote_open(RemotePeer **ret, const char *address, const RemoteKeys *keys, uint64_t deadline)
{
    return -ENOSYS;
}

RemotePeer *remote_free(RemotePeer *remote)
{
    return NULL;
}

bool remote_has_ended(RemotePeer *remote)
{
    return true;
}

int remote_send(RemotePeer *remote, const void *bytes, size_t size)
{
    return -ENOSYS;
}

int remote_receive(RemotePeer *remote, int wake_fd, uint64_t deadline, Buf *ret)
{
    return -ENOSYS;
}
#endif
