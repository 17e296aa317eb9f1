#include "host/daemon/separate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "host/daemon/check.h"
#include "host/daemon/controller.h"
#include "host/daemon/scheduling.h"
#include "host/engine/engine.h"
#include "host/launcher/launcher.h"
#include "host/privilege/drop.h"
#include "host/privilege/remote.h"
#include "host/privilege/seam.h"
#include "proto/base/log.h"

/* Of all that root may the controller keeps what it opens, gives away and removes the files of sessions with,
 * beneath those that it may write to. */
#define CAPABILITY(name) (UINT64_C(1) << CAP_##name)
#define CAPABILITIES                                                                                         \
    (CAPABILITY(DAC_OVERRIDE) | CAPABILITY(DAC_READ_SEARCH) | CAPABILITY(CHOWN) | CAPABILITY(FOWNER))

typedef struct Separation {
    const Options *options;
    Paths *paths;
    Account account;
    pid_t launcher;
    void (*ready)(void *userdata);
    void *userdata;
} Separation;

bool separate_is_due(const Options *options)
{
    return geteuid() == 0 && strcmp(options->engine, "local") != 0;
}

/* ---- the controller ---- */

/* What it writes to, below the state directory; the launcher has made them. */
static const char *const state_parts[] = {"sessions", "outputs", "removed", "ended"};

/* Directories that only a library may want, and what tells of containers. */
static const char *const readable[] = {"/proc", "/sys/fs/cgroup", "/usr", "/etc/localtime", "/dev/null"};

static int give_up_rights(const Separation *separation, Problem *problem)
{
    char writable[ARRAY_SIZE(state_parts) + 1][PATH_MAX];
    Remnant rights = {.account = separation->account, .capabilities = CAPABILITIES};
    size_t n = ARRAY_SIZE(state_parts);

    for (size_t i = 0; i < n; i++)
        snprintf(writable[i], PATH_MAX, "%s/%s", separation->paths->state_dir, state_parts[i]);
    snprintf(writable[n], PATH_MAX, "%s/" SEAM_LINKS, separation->paths->runtime_dir);
    for (size_t i = 0; i <= n; i++)
        rights.writable[i] = writable[i];
    for (size_t i = 0; i < ARRAY_SIZE(readable); i++)
        rights.readable[i] = readable[i];
    return rights_drop(&rights, separation->launcher, problem);
}

static void nothing(void *userdata)
{
}

/* In the process that the launcher has made for it. */
static int control(void *userdata, int socket)
{
    const Separation *separation = userdata;
    int told = fcntl(socket, F_DUPFD_CLOEXEC, 0); /* the controller closes its own */
    Problem problem = PROBLEM_NULL;
    int r = scheduling_claim(separation->options->core, &problem);

    log_leave_file();
    if (r == 0)
        r = give_up_rights(separation, &problem);
    if (r == 0)
        r = controller_run(separation->options, separation->paths, socket, nothing, NULL, &problem);
    if (r < 0)
        remote_unable(told, &problem);
    return r < 0;
}

/* ---- both ---- */

static void on_ready(void *userdata)
{
    const Separation *separation = userdata;

    separation->ready(separation->userdata);
}

int separate_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                 Problem *problem)
{
    Separation separation = {options, paths, .launcher = getpid(), .ready = ready, .userdata = userdata};
    LauncherConfig config = {
        .options = options,
        .paths = paths,
        .engine = engine_config(paths, options),
        .controller = control,
        .ready = on_ready,
        .userdata = &separation,
    };
    int r = account_find(options->user, &separation.account, problem);

    if (r < 0)
        return r;
    config.user = separation.account.uid;
    return launcher_run(&config, problem);
}
