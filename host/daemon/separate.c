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
#include "host/privilege/drop.h"
#include "host/privilege/remote.h"
#include "proto/base/log.h"

/* Of all that root may the files worker keeps what it opens, gives away and removes the files of sessions
 * with, beneath those that it may write to. The controller keeps nothing. */
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
static int become_controller(const Separation *separation, Problem *problem)
{
    const char *certificates = separation->options->package_certificates;
    Paths *paths = separation->paths;
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
    const Remnant rights = {
        .account = separation->account,
        .readable = {READABLE, *certificates ? certificates : NULL},
        .writable = {paths->journals, paths->ended, paths->templates, paths->links},
    };

    return rights_drop(&rights, separation->launcher, problem);
}

static int become_files_worker(const Separation *separation, Problem *problem)
{
    static const char *const parts[] = {"sessions", "outputs", "removed", "template-files", "packages"};
    char writable[ARRAY_SIZE(parts)][PATH_MAX];
    Remnant rights = {.account = separation->account, .capabilities = CAPABILITIES, .readable = {READABLE}};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        snprintf(writable[i], PATH_MAX, "%s/%s", separation->paths->state_dir, parts[i]);
        rights.writable[i] = writable[i];
    }
    return rights_drop(&rights, separation->launcher, problem);
}

static void nothing(void *userdata)
{
}

static int control(void *userdata, int launcher, int files_worker)
{
    const Separation *separation = userdata;
    const ControllerPeers peers = {launcher, files_worker};
    int told = fcntl(launcher, F_DUPFD_CLOEXEC, 0); /* the controller closes its own */
    Problem problem = PROBLEM_NULL;
    int r = scheduling_claim(separation->options->core, &problem);

    log_leave_file();
    if (r == 0)
        r = become_controller(separation, &problem);
    if (r == 0)
        r = controller_run(separation->options, separation->paths, &peers, nothing, NULL, &problem);
    if (r < 0)
        remote_unable(told, &problem);
    return r < 0;
}

static int keep_files(void *userdata, int launcher, int controller)
{
    const Separation *separation = userdata;
    const FilesWorker worker = {separation->paths->state_dir, controller, launcher};
    Problem problem = PROBLEM_NULL;
    int r;

    log_leave_file();
    prctl(PR_SET_NAME, "limpet-files");
    r = become_files_worker(separation, &problem);
    if (r < 0)
        remote_unable(launcher, &problem);
    else if (files_worker_run(&worker, &problem) < 0)
        log_error("files worker ended", "reason=%s", problem.text);
    return problem.code != ERR_NONE;
}

/* ---- the launcher ---- */

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
        .files_worker = keep_files,
        .ready = on_ready,
        .userdata = &separation,
    };
    int r = account_find(options->user, &separation.account, problem);

    if (r == 0)
        r = account_find(options->egress_user, &config.egress, problem);
    if (r == 0 && *options->listen)
        r = account_find(options->listen_user, &config.net, problem);
    if (r < 0)
        return r;
    if (config.egress.uid == separation.account.uid || config.net.uid == separation.account.uid ||
        config.net.uid == config.egress.uid)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "of user, egress_user and listen_user two are the same: each process has an account of "
            "its own");
    config.user = separation.account.uid;
    return launcher_run(&config, problem);
}
