#include "host/daemon/service.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/program.h"

#define UNIT          "limpetd.service"
#define SAID_LIMIT    4096
#define ASK_TIMEOUT   5.0
#define START_TIMEOUT 90.0 /* of systemd itself */

static int systemctl(const char *program, const char *verb, double timeout)
{
    const char *const manager = geteuid() == 0 ? "--system" : "--user";
    const char *const argv[] = {program, manager, "--quiet", verb, UNIT, NULL};
    Buf said _cleanup_(buf_deinit) = {.limit = SAID_LIMIT};

    return capture_program(argv, timeout, &said);
}

/* The unit has no options but those of the configuration file. */
static bool has_standard_paths(const Paths *paths)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char socket[PATH_MAX];

    if (geteuid() == 0)
        return strcmp(paths->socket, "/run/limpet/limpet.sock") == 0 &&
               strcmp(paths->state_dir, "/var/lib/limpet") == 0;
    snprintf(socket, sizeof(socket), "/run/user/%u", geteuid());
    if (!runtime || strcmp(runtime, socket) != 0)
        return false;
    snprintf(socket, sizeof(socket), "%s/limpet/limpet.sock", runtime);
    return strcmp(paths->socket, socket) == 0;
}

int service_start(const Paths *paths)
{
    char *program _cleanup_(freep) = NULL;

    if (access("/run/systemd/system", F_OK) < 0 || !has_standard_paths(paths) ||
        spawn_find("systemctl", &program) < 0 || systemctl(program, "is-enabled", ASK_TIMEOUT) != 0)
        return -1;
    if (systemctl(program, "start", START_TIMEOUT) == 0)
        return 0;
    fprintf(stderr, "limpetd: the service " UNIT " did not start; see: systemctl%s status " UNIT "\n",
            geteuid() == 0 ? "" : " --user");
    return 1;
}
