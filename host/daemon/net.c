#include "host/daemon/net.h"

#include <errno.h>
#include <string.h>

#include "proto/base/log.h"

/* Root with an engine that needs none has no launcher either. */
static int start(void *userdata, int socket)
{
    Net *net = userdata;
    const Options *options = net->options;
    Problem problem = PROBLEM_NULL;
    bool root = geteuid() == 0;
    Account account;

    if (net->remote)
        return remote_start_net(net->remote, socket);
    if (root && account_find(options->listen_user, &account, &problem) < 0)
        return -ENOENT;
    return net_start(net->loop, &net->child, &net->door, root ? &account : NULL, options->log_level,
                     options->listen_connections, socket);
}

/* ---- clients ---- */

static void on_came(void *userdata, int fd, const AuthorizedKey *key)
{
    Net *net = userdata;
    PeerCredentials credentials = {.uid = key->owner, .remote = true};

    memcpy(credentials.key, key->key, sizeof(credentials.key));
    listener_add(net->front->clients, fd, &credentials);
}

static bool may_stay(void *userdata, const PeerCredentials *credentials)
{
    const Net *net = userdata;
    const AuthorizedKey *key;

    if (!credentials->remote)
        return true;
    key = authorized_find(net_client_keys(net->client), credentials->key);
    return key && key->owner == credentials->uid;
}

static void on_changed(void *userdata)
{
    Net *net = userdata;

    listener_keep(net->front->clients, may_stay, net);
}

static const NetClientEvents events = {on_came, on_changed};

bool net_bounds(const Net *net, uid_t user, UserBounds *ret)
{
    const AuthorizedKey *key = net->client ? authorized_of(net_client_keys(net->client), user) : NULL;

    if (!key)
        return false;
    *ret = (UserBounds){key->sessions, key->memory};
    return true;
}

/* ---- keys ---- */

static void on_keys(void *userdata, int keys)
{
    Net *net = userdata;

    if (net->client)
        net_client_set_keys(net->client, keys);
    else
        close(keys);
}

void net_read_keys(Net *net)
{
    Problem problem = PROBLEM_NULL;
    int keys;

    if (!net->client || net->remote)
        return;
    keys = authorized_load(net->paths->authorized_keys, &problem);
    if (keys < 0)
        log_error("authorized keys not read", "reason=%s", problem.text);
    else
        net_client_set_keys(net->client, keys);
}

/* ---- beginning and ending ---- */

static int begin(Net *net, Problem *problem)
{
    int keys, r;

    if (!net->remote) {
        r = net_door_open(&net->door, net->options->listen, net->paths->state_dir,
                          net->paths->authorized_keys, problem);
        if (r < 0)
            return r;
        keys = take_fd(&net->door.keys);
    } else {
        remote_on_keys(net->remote, on_keys, net);
        keys = remote_take_keys(net->remote);
    }
    return net_client_new(&net->client, net->loop, keys, start, net, &events, net, problem);
}

int net_begin(Net *net, const Options *options, const Paths *paths, Loop *loop, Remote *remote, Front *front,
              Problem *problem)
{
    *net = (Net){.options = options,
                 .paths = paths,
                 .loop = loop,
                 .remote = remote,
                 .front = front,
                 .door = NET_DOOR_NULL};
    return *options->listen ? begin(net, problem) : 0;
}

void net_end(Net *net)
{
    net->client = net_client_free(net->client);
    helper_end(&net->child);
    if (net->options)
        net_door_close(&net->door);
}

void net_send_log(Net *net)
{
    if (net->client)
        net_client_say_log(net->client);
}
