/* limpet_connect_port(). */
#include <errno.h>

#include "clients/c/client.h"

/* The connection itself becomes that to the port: no descriptor comes through a command. */
static int connect_dialled(LimpetClient *client, const MsgConnect *said, int *ret)
{
    LimpetClient *other = limpet_new();
    ClientCall call = {0};
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    int r;

    if (!other)
        return -ENOMEM;
    r = limpet_connect(other, client->address.path) ? -EPROTO : 0;
    if (!r) {
        other->connection.sips = true;
        client_begin(other, &call, MSG_CONNECT, MsgConnect, said);
        r = client_call(other, &call, &reply);
    }
    if (r < 0)
        client->problem = other->problem;
    else
        *ret = connection_take_stream(&other->connection);
    limpet_free(other);
    return r;
}

int limpet_connect_port(LimpetClient *client, const char *session, unsigned port, int *ret_fd)
{
    const MsgConnect said = {.session = text_of(session), .order.port = port};
    ClientCall call = {.repeatable = true};
    int fd = -1, r;

    client->problem = PROBLEM_NULL;
    if (client->address.dialled)
        return client_result(client, connect_dialled(client, &said, ret_fd));
    r = client_ask_descriptor(client, &call, MSG_CONNECT, MsgConnect, &said, &fd);
    if (!r && fd < 0)
        r = problem_set(&client->problem, ERR_INTERNAL, "the controller passed no connection");
    if (!r)
        *ret_fd = fd;
    return client_result(client, r);
}
