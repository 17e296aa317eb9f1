#include "host/net/client/net_client.h"

#include <errno.h>
#include <string.h>

#include "host/net/seam.h"
#include "host/privilege/rpc.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* One that ends at once is started again after longer and longer pauses. */
#define PAUSE_LEAST (20 * NSEC_PER_MSEC)
#define PAUSE_MOST  (5 * NSEC_PER_SEC)

struct NetClient {
    Loop *loop;
    NetStarter *start;
    void *starter;
    const NetClientEvents *events;
    void *userdata;
    Authorized authorized;
    int keys;
    Rpc rpc;
    LoopTimer retry;
    uint64_t pause, started;
};

static void begin(NetClient *client);

static void on_retry(LoopTimer *timer)
{
    begin(container_of(timer, NetClient, retry));
}

static void begin_later(NetClient *client)
{
    if (clock_now() - client->started > PAUSE_MOST)
        client->pause = PAUSE_LEAST;
    else
        client->pause = MIN(2 * client->pause, PAUSE_MOST);
    loop_timer_set(client->loop, &client->retry, clock_now() + client->pause, on_retry);
}

static void on_lost(Rpc *rpc, int error)
{
    NetClient *client = container_of(rpc, NetClient, rpc);

    log_error("network process ended, starting another", "reason=%s", strerror(-error));
    rpc_close(rpc);
    begin_later(client);
}

/* What is in the file now decides, whatever that process has let in. */
static int on_came(NetClient *client, const msgpack_object_map *body, Descriptors *descriptors)
{
    int fd _cleanup_(closep) = descriptors_take(descriptors, 0);
    const AuthorizedKey *key;
    Problem problem = PROBLEM_NULL;
    char text[Z85_KEY_SIZE + 1] = "";
    NetCame came;

    if (fd < 0 || body_decode(&came, NetCame, body, &problem) < 0 || came.key.size != Z85_KEY_SIZE)
        return -EBADMSG;
    memcpy(text, came.key.data, Z85_KEY_SIZE);
    key = authorized_find(&client->authorized, text);
    if (!key) /* not any more */
        return 0;
    log_info("network client", "name=%s owner=%u address=%.*s", key->name, key->owner, (int)came.address.size,
             came.address.data);
    client->events->came(client->userdata, take_fd(&fd), key);
    return 0;
}

static int on_message(Rpc *rpc, const Message *message, Descriptors *descriptors)
{
    NetClient *client = container_of(rpc, NetClient, rpc);

    return (NetKind)message->kind == NET_CAME ? on_came(client, &message->body, descriptors) : -EBADMSG;
}

static const RpcEvents events = {on_message, on_lost};

static void say(NetClient *client, NetKind kind, int fd)
{
    if (client->rpc.file.loop)
        rpc_send(&client->rpc, kind, 0, SCHEMA(NetNothing), &(NetNothing){0}, &fd, 1);
}

static void begin(NetClient *client)
{
    int socket, r = client->start(client->starter, &socket);

    client->started = clock_now();
    if (r == 0)
        r = rpc_open(&client->rpc, client->loop, socket, &events);
    if (r == 0) {
        say(client, NET_KEYS, client->keys);
        return;
    }
    log_error("network process not started", "error=%s", strerror(-r));
    begin_later(client);
}

int net_client_new(NetClient **ret, Loop *loop, int keys, NetStarter *start, void *starter,
                   const NetClientEvents *client_events, void *userdata, Problem *problem)
{
    NetClient *client = calloc(1, sizeof(*client));

    if (!client) {
        close(keys);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    *client = (NetClient){.loop = loop,
                          .start = start,
                          .starter = starter,
                          .events = client_events,
                          .userdata = userdata,
                          .keys = keys,
                          .pause = PAUSE_LEAST};
    if (authorized_read(&client->authorized, keys, problem) < 0) {
        net_client_free(client);
        return -EPROTO;
    }
    begin(client);
    *ret = client;
    return 0;
}

NetClient *net_client_free(NetClient *client)
{
    if (!client)
        return NULL;
    loop_timer_cancel(&client->retry);
    rpc_close(&client->rpc);
    authorized_deinit(&client->authorized);
    close_fd(&client->keys);
    free(client);
    return NULL;
}

void net_client_set_keys(NetClient *client, int keys)
{
    Authorized authorized;
    Problem problem = PROBLEM_NULL;

    if (authorized_read(&authorized, keys, &problem) < 0) {
        log_error("authorized keys not read", "reason=%s", problem.text);
        close(keys);
        return;
    }
    authorized_deinit(&client->authorized);
    close_fd(&client->keys);
    client->authorized = authorized;
    client->keys = keys;
    log_info("authorized keys read", "keys=%zu", authorized.n);
    say(client, NET_KEYS, keys);
    client->events->changed(client->userdata);
}

const Authorized *net_client_keys(const NetClient *client)
{
    return &client->authorized;
}

void net_client_say_log(NetClient *client)
{
    say(client, NET_LOG, STDERR_FILENO);
}
