#include "host/net/client/net_client.h"

#include <errno.h>
#include <string.h>

#include "host/net/protocol.h"
#include "host/privilege/helper.h"
#include "proto/base/log.h"

struct NetClient {
    HelperProcess process;
    const NetClientEvents *events;
    void *userdata;
    Authorized authorized;
    int keys;
};

/* Takes a client if the file has its key now, whatever that process has let in. */
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

static int on_message(HelperProcess *process, const Message *message, Descriptors *descriptors)
{
    NetClient *client = container_of(process, NetClient, process);

    return (NetKind)message->kind == NET_CAME ? on_came(client, &message->body, descriptors) : -EBADMSG;
}

static void say(NetClient *client, NetKind kind, int fd)
{
    if (helper_process_is_there(&client->process))
        ipc_send(&client->process.ipc, kind, 0, SCHEMA(NetNothing), &(NetNothing){0}, &fd, 1);
}

static void on_begun(HelperProcess *process)
{
    NetClient *client = container_of(process, NetClient, process);

    say(client, NET_KEYS, client->keys);
}

static const HelperProcessOps ops = {.name = "network", .begun = on_begun, .message = on_message};

int net_client_new(NetClient **ret, Loop *loop, int keys, NetStarter *start, void *starter,
                   const NetClientEvents *client_events, void *userdata, Problem *problem)
{
    NetClient *client = calloc(1, sizeof(*client));

    if (!client) {
        close(keys);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    *client = (NetClient){.events = client_events, .userdata = userdata, .keys = keys};
    helper_process_init(&client->process, &ops, loop, start, starter);
    if (authorized_read(&client->authorized, keys, problem) < 0) {
        net_client_free(client);
        return -EPROTO;
    }
    helper_process_want(&client->process);
    *ret = client;
    return 0;
}

NetClient *net_client_free(NetClient *client)
{
    if (!client)
        return NULL;
    helper_process_deinit(&client->process);
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
