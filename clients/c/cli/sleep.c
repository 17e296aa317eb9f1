/* limpet sleep */
#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();

    if (!client)
        return EXIT_SANDBOX;
    for (int i = 0; i < n; i++)
        if (limpet_sleep(client, operands[i]))
            return cli_fail(client);
    return 0;
}

const Command command_sleep = {
    .name = "sleep",
    .usage = "SESSION...",
    .summary = "Saves sessions with everything in them and frees their memory; the next call wakes them",
    .details = "\nCalls that run or wait end first. A session in which programs run stays awake.",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = -1,
    .run = run,
};
