/* limpet get */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/cli/cli.h"

static int complain(const char *path)
{
    fprintf(stderr, "limpet: %s: %s\n", path, strerror(errno));
    return EXIT_USAGE;
}

/* Gets the file under a temporary name, so that a failure does not cost the one that is there. */
static int get_replacing(LimpetClient *client, const char *session, const char *path, const char *local)
{
    _cleanup_(freep) char *temporary = NULL;
    _cleanup_(closep) int fd = -1;
    mode_t mask = umask(0);
    int status;

    umask(mask);
    if (asprintf(&temporary, "%s.XXXXXX", local) < 0) {
        temporary = NULL;
        return complain(local);
    }
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return complain(temporary);
    status = limpet_get(client, session, path, fd) ? cli_fail(client) : 0;
    if (!status && (fchmod(fd, 0666 & ~mask) < 0 || rename(temporary, local) < 0))
        status = complain(local);
    if (status)
        unlink(temporary);
    return status;
}

static int get_special(LimpetClient *client, const char *session, const char *path, const char *local)
{
    _cleanup_(closep) int fd = open(local, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return complain(local);
    return limpet_get(client, session, path, fd) ? cli_fail(client) : 0;
}

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(freep) char *inside = NULL;
    const char *local = operands[1], *session, *path;
    struct stat status;
    bool exists = stat(local, &status) == 0;
    int r = cli_split(operands[0], &session, &path);

    if (r)
        return r;
    if (exists && S_ISDIR(status.st_mode)) {
        if (asprintf(&inside, "%s/%s", local, basename(path)) < 0)
            return complain(local);
        local = inside;
        exists = stat(local, &status) == 0;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (strcmp(local, "-") == 0)
        return limpet_get(client, session, path, STDOUT_FILENO) ? cli_fail(client) : 0;
    if (exists && !S_ISREG(status.st_mode))
        return get_special(client, session, path, local);
    return get_replacing(client, session, path, local);
}

const Command command_get = {
    .name = "get",
    .usage = "SESSION:PATH LOCAL",
    .summary = "Copies a file out of a session",
    .details =
        "\nPATH is under /session. LOCAL '-' is standard output; in a directory the file keeps its name.",
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
