#include "host/daemon/separate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "host/daemon/check.h"
#include "host/daemon/controller.h"
#include "host/daemon/scheduling.h"
#include "host/engine/engine.h"
#include "host/keeper/process/serve.h"
#include "host/launcher/launcher.h"
#include "host/privilege/confine.h"
#include "host/privilege/remote.h"
#include "proto/base/log.h"

/* Capabilities that the files worker keeps of root's: it opens, gives away and removes the files of sessions
 * with them, beneath the directories that it may write to. The controller keeps nothing. */
#define CAPABILITY(name) (UINT64_C(1) << CAP_##name)
#define CAPABILITIES                                                                                         \
    (CAPABILITY(DAC_OVERRIDE) | CAPABILITY(DAC_READ_SEARCH) | CAPABILITY(CHOWN) | CAPABILITY(FOWNER))

bool separate_is_due(const Options *options)
{
    return geteuid() == 0 && strcmp(options->engine, "local") != 0;
}

/* ---- the two processes ---- */

/* Directories that only a library may want, and what tells of containers. */
#define READABLE "/proc", "/sys/fs/cgroup", "/usr", "/etc/localtime", "/dev/null"

/* From now on by a handle: the controller may not pass what is above. */
static int hold(char **path)
{
    int fd = open(*path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char *held;

    if (fd < 0)
        return -errno;
    if (asprintf(&held, "/proc/self/fd/%d", fd) < 0)
        return -ENOMEM;
    free(*path);
    *path = held;
    return 0;
}

/* The launcher has made the directories. */
static int become_controller(const HelperOrders *orders, const Options *options, Paths *paths,
                             Problem *problem)
{
    const char *certificates = options->package_certificates;
    int r = hold(&paths->journals);

    if (r == 0)
        r = hold(&paths->ended);
    if (r == 0)
        r = hold(&paths->templates);
    if (r == 0)
        r = hold(&paths->links);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the controller's directories cannot be opened: %s",
                           strerror(-r));
    const Confinement rights = {
        .readable = {READABLE, *certificates ? certificates : NULL},
        .writable = {paths->journals, paths->ended, paths->templates, paths->links},
    };

    return helper_drop(orders, rights, problem);
}

static int become_files_worker(const HelperOrders *orders, const Options *options, Problem *problem)
{
    static const char *const parts[] = {"sessions", "outputs", "removed", "template-files", "packages"};
    char writable[ARRAY_SIZE(parts)][PATH_MAX];
    Confinement rights = {.capabilities = CAPABILITIES, .readable = {READABLE}};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        snprintf(writable[i], PATH_MAX, "%s/%s", options->state_dir, parts[i]);
        rights.writable[i] = writable[i];
    }
    return helper_drop(orders, rights, problem);
}

static void nothing(void *userdata)
{
}

/* Its paths are the launcher's, which has the lock. */
static int control(const HelperOrders *orders, Options *options, Paths *paths, Problem *problem)
{
    const ControllerPeers peers = {HELPER_FD, LAUNCHER_OTHER_FD};
    int r = paths_init(paths, options, problem);

    paths->lock = LAUNCHER_LOCK_FD;
    paths->pid = orders->parent;
    if (r == 0)
        r = scheduling_claim(options->core, problem);
    if (r == 0)
        r = become_controller(orders, options, paths, problem);
    return r < 0 ? r : controller_run(options, paths, &peers, nothing, NULL, problem);
}

int separate_controller_main(int argc, char **argv)
{
    Options options _cleanup_(options_deinit) = {0};
    Paths paths _cleanup_(paths_deinit) = PATHS_NULL;
    Problem problem = PROBLEM_NULL;
    HelperOrders orders;
    int told, r;

    if (helper_begin(&orders, argc, argv, LAUNCHER_FDS, "limpetd") < 0)
        return 2;
    prctl(PR_SET_NAME, "limpetd");
    told = fcntl(HELPER_FD, F_DUPFD_CLOEXEC, 0); /* the controller closes its own */
    r = options_inherit(&options, &problem);
    if (r == 0)
        r = control(&orders, &options, &paths, &problem);
    if (r < 0)
        remote_unable(told, &problem);
    return r < 0;
}

int separate_files_main(int argc, char **argv)
{
    Options options _cleanup_(options_deinit) = {0};
    Problem problem = PROBLEM_NULL;
    HelperOrders orders;
    int r;

    if (helper_begin(&orders, argc, argv, LAUNCHER_FDS, "limpetd") < 0)
        return 2;
    prctl(PR_SET_NAME, FILES_PROGRAM);
    r = options_inherit(&options, &problem);
    if (r == 0)
        r = become_files_worker(&orders, &options, &problem);
    const FilesWorker worker = {options.state_dir, LAUNCHER_OTHER_FD, HELPER_FD};

    if (r < 0)
        remote_unable(HELPER_FD, &problem);
    else if (files_worker_run(&worker, &problem) < 0)
        log_error("files worker ended", "reason=%s", problem.text);
    return problem.code != ERR_NONE;
}

/* ---- the launcher ---- */

int separate_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                 Problem *problem)
{
    LauncherConfig config = {
        .options = options,
        .paths = paths,
        .engine = engine_config(paths, options),
        .environment = options_environment(options),
        .ready = ready,
        .userdata = userdata,
    };
    int r = account_find(options->user, &config.user, problem);

    if (r == 0)
        r = account_find(options->egress_user, &config.egress, problem);
    if (r == 0 && *options->listen)
        r = account_find(options->listen_user, &config.net, problem);
    if (r == 0 && !config.environment)
        r = problem_set(problem, ERR_INTERNAL, "out of memory");
    if (r < 0)
        return r;
    if (config.egress.uid == config.user.uid || config.net.uid == config.user.uid ||
        config.net.uid == config.egress.uid)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "of user, egress_user and listen_user two are the same: each process has an account of "
            "its own");
    return launcher_run(&config, problem);
}
