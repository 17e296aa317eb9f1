/* limpet put */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(closep) int file = -1;
    _cleanup_(freep) char *named = NULL;
    const char *local = operands[0], *session, *path;
    int fd = STDIN_FILENO;
    int r = cli_split(operands[1], &session, &path);

    if (r)
        return r;
    if (strcmp(local, "-") != 0)
        fd = file = open(local, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "limpet: %s: %s\n", local, strerror(errno));
        return EXIT_USAGE;
    }
    if (!*path || path[strlen(path) - 1] == '/') {
        if (asprintf(&named, "%s%s", path, basename(local)) < 0)
            return EXIT_SANDBOX;
        path = named;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    return limpet_put(client, session, path, fd) ? cli_fail(client) : 0;
}

const Command command_put = {
    .name = "put",
    .usage = "LOCAL SESSION:PATH",
    .summary = "Copies a file into a session",
    .details =
        "\nPATH is under /session. LOCAL '-' is standard input. Where PATH is empty or ends in a slash\n"
        "the file keeps its name.",
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
