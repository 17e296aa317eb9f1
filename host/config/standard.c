#include "host/config/standard.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "base/limpet", where base is the XDG variable or its fallback below the home directory. */
static void user_path(char *ret, size_t size, const char *variable, const char *fallback)
{
    const char *base = getenv(variable);
    const char *home = getenv("HOME");

    if (base && *base == '/')
        snprintf(ret, size, "%s/limpet", base);
    else
        snprintf(ret, size, "%s/%s/limpet", home && *home ? home : "/", fallback);
}

void standard_config(char *ret, size_t size)
{
    char directory[PATH_MAX];

    if (geteuid() == 0) {
        snprintf(ret, size, "/etc/limpet/limpetd.conf");
        return;
    }
    user_path(directory, sizeof(directory), "XDG_CONFIG_HOME", ".config");
    snprintf(ret, size, "%.*s/limpetd.conf", (int)size - 16, directory);
}

void standard_state_dir(char *ret, size_t size)
{
    if (geteuid() == 0)
        snprintf(ret, size, "/var/lib/limpet");
    else
        user_path(ret, size, "XDG_STATE_HOME", ".local/state");
}

void standard_runtime_dir(char *ret, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *temporary = getenv("TMPDIR");

    if (geteuid() == 0)
        snprintf(ret, size, "/run/limpet");
    else if (runtime && *runtime == '/')
        snprintf(ret, size, "%s/limpet", runtime);
    else
        snprintf(ret, size, "%s/limpet-%u", temporary && *temporary == '/' ? temporary : "/tmp", geteuid());
}
