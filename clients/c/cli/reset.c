/* limpet reset */
#include <inttypes.h>

#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    uint64_t epoch;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_reset(client, operands[0], &epoch))
        return cli_fail(client);
    printf("epoch %" PRIu64 "\n", epoch);
    return 0;
}

const Command command_reset = {
    .name = "reset",
    .usage = "SESSION",
    .summary = "Ends the running call and starts a new interpreter; /session is kept",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
