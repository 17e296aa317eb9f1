/* limpet shutdown */
#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = limpet_new();

    if (!client) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    limpet_set_autostart(client, false);
    if (limpet_connect(client, NULL)) {
        bool gone = limpet_error(client)->number == LIMPET_UNAVAILABLE;

        cli_fail(client);
        return gone ? 0 : EXIT_SANDBOX;
    }
    return limpet_shutdown(client) ? cli_fail(client) : 0;
}

const Command command_shutdown = {
    .name = "shutdown",
    .usage = "",
    .summary = "Ends every session and the controller",
    .details = "\nReturns when all is gone. It is no failure when no controller runs.",
    .run = run,
};
