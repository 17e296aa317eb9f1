#include "host/egress/client/egress_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "host/egress/protocol.h"
#include "host/privilege/helper.h"
#include "proto/base/log.h"

/* A supervisor has one connection at a time. */
#define BACKLOG 8

struct EgressClient {
    HelperProcess process;
    List places;
    uint64_t last_number;
};

/* ---- what it is told ---- */

static int say(EgressClient *client, const EgressPlace *place, bool anew)
{
    const EgressServe said = {
        .sandbox = place->number,
        .label = text_of(place->label),
        .limit = place->limit,
        .anywhere = place->anywhere,
        .allow = value_encoded(&place->allow),
        .bindings = value_encoded(&place->bindings),
    };

    return ipc_send(&client->process.ipc, EGRESS_SERVE, 0, SCHEMA(EgressServe), &said, &place->arrivals,
                    anew);
}

/* A failure is told as the loss of it. */
static void say_all(HelperProcess *process)
{
    EgressClient *client = container_of(process, EgressClient, process);
    EgressPlace *place;

    list_foreach (place, &client->places, EgressPlace, link)
        say(client, place, true);
}

static const HelperProcessOps ops = {.name = "egress", .begun = say_all};

int egress_client_new(EgressClient **ret, Loop *loop, EgressStarter *start, void *userdata)
{
    EgressClient *client = calloc(1, sizeof(*client));

    if (!client)
        return -ENOMEM;
    helper_process_init(&client->process, &ops, loop, start, userdata);
    list_init(&client->places);
    *ret = client;
    return 0;
}

EgressClient *egress_client_free(EgressClient *client)
{
    if (!client)
        return NULL;
    helper_process_deinit(&client->process);
    free(client);
    return NULL;
}

void egress_client_say_log(EgressClient *client)
{
    const int log = STDERR_FILENO;

    if (helper_process_is_there(&client->process))
        ipc_send(&client->process.ipc, EGRESS_LOG, 0, SCHEMA(EgressNothing), &(EgressNothing){0}, &log, 1);
}

/* ---- a sandbox ---- */

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd _cleanup_(closep) = -1;
    size_t n = strlen(path);

    if (n >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, n + 1);
    unlink(path); /* an earlier controller's */
    /* The file gets the mode that the socket has. */
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, BACKLOG) < 0)
        return -errno;
    return take_fd(&fd);
}

static int keep(EgressPlace *place, const EgressRules *rules)
{
    Buf allow _cleanup_(buf_deinit) = BUF_NULL, bindings _cleanup_(buf_deinit) = BUF_NULL;
    Buf before[] = {place->allow, place->bindings};

    if (buf_append(&allow, buf_head(rules->allow), rules->allow->size) < 0 ||
        buf_append(&bindings, buf_head(rules->bindings), rules->bindings->size) < 0)
        return -ENOMEM;
    place->allow = allow;
    place->bindings = bindings;
    allow = before[0];
    bindings = before[1];
    snprintf(place->label, sizeof(place->label), "%s", rules->label);
    place->limit = rules->limit;
    place->anywhere = rules->anywhere;
    return 0;
}

static int begin_place(EgressClient *client, EgressPlace *place, const char *path)
{
    int fd = listen_at(path);

    if (fd < 0)
        return fd;
    place->arrivals = fd;
    place->client = client;
    place->number = ++client->last_number;
    list_append(&client->places, &place->link);
    return 0;
}

int egress_serve(EgressClient *client, EgressPlace *place, const char *socket, const EgressRules *rules)
{
    bool anew = !place->client;
    int r = keep(place, rules);

    if (r == 0 && anew)
        r = begin_place(client, place, socket);
    if (r < 0)
        return r;
    if (helper_process_is_there(&client->process))
        say(client, place, anew);
    else
        helper_process_want(&client->process);
    return 0;
}

void egress_forget(EgressPlace *place)
{
    EgressClient *client = take(place->client);
    const EgressForget said = {.sandbox = place->number};

    if (place->bindings.data)
        explicit_bzero(place->bindings.data, place->bindings.capacity);
    buf_deinit(&place->allow);
    buf_deinit(&place->bindings);
    if (!client)
        return;
    list_remove(&place->link);
    close_fd(&place->arrivals);
    if (helper_process_is_there(&client->process))
        ipc_send(&client->process.ipc, EGRESS_FORGET, 0, SCHEMA(EgressForget), &said, NULL, 0);
}
