/* limpet get */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/transfer.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    const char *session, *path;
    int r = cli_split(operands[0], &session, &path);

    if (r)
        return r;
    client = cli_connect();
    return client ? cli_get(client, session, path, operands[1]) : EXIT_SANDBOX;
}

const Command command_get = {
    .name = "get",
    .usage = "SESSION:PATH LOCAL",
    .summary = "Copies a file or a directory out of a session",
    .details = "\nPATH is relative to /session. LOCAL '-' is standard output. If LOCAL is a directory, the "
               "file or directory\n"
               "keeps its name there.",
    .operands = {COMPLETE_SESSION_PATH, COMPLETE_FILE},
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
