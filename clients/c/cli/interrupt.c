/* limpet interrupt */
#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    bool interrupted;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_interrupt(client, operands[0], &interrupted))
        return cli_fail(client);
    puts(interrupted ? "interrupted" : "nothing was running");
    return 0;
}

const Command command_interrupt = {
    .name = "interrupt",
    .usage = "SESSION",
    .summary = "Interrupts the running call of a session",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
