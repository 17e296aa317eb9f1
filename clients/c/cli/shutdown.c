/* limpet shutdown */
#include "clients/c/cli/cli.h"

typedef struct ShutdownValues {
    bool keep;
} ShutdownValues;

static const Option shutdown_options[] = {
    OPTION_ROW(0, "keep", OPTION_FLAG, ShutdownValues, keep, NULL,
               "keep the sessions and their variables for the next controller"),
};

static int run(const void *values, char **operands, int n)
{
    const ShutdownValues *given = values;
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
    return limpet_shutdown(client, given->keep) ? cli_fail(client) : 0;
}

const Command command_shutdown = {
    .name = "shutdown",
    .usage = "[OPTIONS]",
    .summary = "Ends all sessions and the controller; with --keep, only the controller",
    .details = "\nReturns when everything has ended. Succeeds if no controller is running.",
    .options = {shutdown_options, ARRAY_SIZE(shutdown_options)},
    .values_size = sizeof(ShutdownValues),
    .run = run,
};
