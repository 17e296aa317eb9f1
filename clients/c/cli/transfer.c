#include "clients/c/cli/transfer.h"

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

static int get_to(LimpetClient *client, const char *session, const char *path, const char *local)
{
    struct stat status;

    if (stat(local, &status) == 0 && !S_ISREG(status.st_mode))
        return get_special(client, session, path, local);
    return get_replacing(client, session, path, local);
}

int cli_get(LimpetClient *client, const char *session, const char *path, const char *local)
{
    _cleanup_(freep) char *inside = NULL;
    struct stat status;

    if (strcmp(local, "-") == 0)
        return limpet_get(client, session, path, STDOUT_FILENO) ? cli_fail(client) : 0;
    if (stat(local, &status) < 0 || !S_ISDIR(status.st_mode))
        return get_to(client, session, path, local);
    if (asprintf(&inside, "%s/%s", local, basename(path)) < 0) {
        inside = NULL;
        return complain(local);
    }
    return get_to(client, session, path, inside);
}

int cli_put(LimpetClient *client, const char *local, const char *session, const char *path)
{
    _cleanup_(closep) int file = -1;
    _cleanup_(freep) char *named = NULL;
    int fd = STDIN_FILENO;

    if (strcmp(local, "-") != 0)
        fd = file = open(local, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return complain(local);
    if (!*path || path[strlen(path) - 1] == '/') {
        if (asprintf(&named, "%s%s", path, basename(local)) < 0) {
            named = NULL;
            return complain(local);
        }
        path = named;
    }
    return limpet_put(client, session, path, fd) ? cli_fail(client) : 0;
}
