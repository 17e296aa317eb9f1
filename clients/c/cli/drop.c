/* limpet drop */
#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    int status = 0;

    if (!client)
        return EXIT_SANDBOX;
    for (int i = 1; i < n; i++)
        if (limpet_drop(client, operands[0], operands[i]))
            status = cli_fail(client);
    return status;
}

const Command command_drop = {
    .name = "drop",
    .usage = "SESSION CHECKPOINT...",
    .summary = "Removes checkpoints, with the memory and the files that they hold",
    .operands = {COMPLETE_SESSION, COMPLETE_CHECKPOINT},
    .operands_min = 2,
    .operands_max = -1,
    .run = run,
};
