/* limpet put */
#include <errno.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/transfer.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    const char *local = operands[0], *session, *path;
    int r = cli_split(operands[1], &session, &path);

    if (r)
        return r;
    /* Before a controller is started for nothing. */
    if (strcmp(local, "-") != 0 && access(local, R_OK) < 0) {
        fprintf(stderr, "limpet: %s: %s\n", local, strerror(errno));
        return EXIT_USAGE;
    }
    client = cli_connect();
    return client ? cli_put(client, local, session, path) : EXIT_SANDBOX;
}

const Command command_put = {
    .name = "put",
    .usage = "LOCAL SESSION:PATH",
    .summary = "Copies a file or a directory into a session",
    .details = "\nPATH is relative to /session. LOCAL '-' is standard input. If PATH is empty or ends in a "
               "slash, the file or\n"
               "directory keeps its name. A directory is merged into an existing one.",
    .operands = {COMPLETE_FILE, COMPLETE_SESSION_PATH},
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
