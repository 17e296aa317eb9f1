/* limpet_connect_port(). */
#include <errno.h>

#include "clients/c/client.h"

int limpet_connect_port(LimpetClient *client, const char *session, unsigned port, int *ret_fd)
{
    const MsgConnect said = {.session = text_of(session), .order.port = port};
    ClientCall call = {.repeatable = true};
    int fd = -1, r;

    client->problem = PROBLEM_NULL;
    r = client_ask_descriptor(client, &call, MSG_CONNECT, MsgConnect, &said, &fd);
    if (!r && fd < 0)
        r = problem_set(&client->problem, ERR_INTERNAL, "the controller passed no connection");
    if (!r)
        *ret_fd = fd;
    return client_result(client, r);
}
