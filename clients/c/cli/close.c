/* limpet close */
#include "clients/c/cli/cli.h"

int cli_close(LimpetClient *client, const char *session)
{
    char *out _cleanup_(freep) = NULL, *err _cleanup_(freep) = NULL;
    int r = limpet_close(client, session, &out, &err);

    fputs(out ? out : "", stdout);
    fputs(err ? err : "", stderr);
    return r;
}

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    int status = 0;

    if (!client)
        return EXIT_SANDBOX;
    for (int i = 0; i < n; i++)
        if (cli_close(client, operands[i]))
            status = cli_fail(client);
    return status;
}

const Command command_close = {
    .name = "close",
    .usage = "SESSION...",
    .summary = "Ends sessions and removes their containers; published artifacts stay",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = -1,
    .run = run,
};
