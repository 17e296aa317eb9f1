#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "host/config/options.h"
#include "host/config/package_index.h"
#include "host/config/paths.h"
#include "host/daemon/check.h"
#include "host/daemon/controller.h"
#include "host/daemon/process.h"
#include "host/egress/process.h"
#include "host/egress/service.h"
#include "host/engine/engine.h"
#include "host/file_service/process/serve.h"
#include "host/launcher/launcher.h"
#include "host/link/unix_socket.h"
#include "host/net/start.h"
#include "host/privilege/confine.h"
#include "host/privilege/remote.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/program.h"

/* ---- the controller apart from root's rights ---- */

/* Capabilities that the files worker keeps of root's: it opens, gives away and removes the files of sessions
 * with them, beneath the directories that it may write to. The controller keeps nothing. */
#define CAPABILITY(name) (UINT64_C(1) << CAP_##name)
#define CAPABILITIES                                                                                         \
    (CAPABILITY(DAC_OVERRIDE) | CAPABILITY(DAC_READ_SEARCH) | CAPABILITY(CHOWN) | CAPABILITY(FOWNER))

static bool separate_is_due(const Options *options)
{
    return geteuid() == 0 && strcmp(options->engine, "local") != 0 && strcmp(options->engine, "pod") != 0;
}

/* ---- the two processes ---- */

/* Directories that only a library may want, and what tells of containers. */
#define READABLE "/proc", "/sys/fs/cgroup", "/usr", "/etc/localtime", "/dev/null"

/* From now on by a handle: the controller may not pass what is above. */
static int hold(char **path, int flags)
{
    int fd = open(*path, O_PATH | O_DIRECTORY | O_CLOEXEC | flags);
    char *held;

    if (fd < 0)
        return -errno;
    if (asprintf(&held, "/proc/self/fd/%d", fd) < 0)
        return -ENOMEM;
    free(*path);
    *path = held;
    return 0;
}

/* The launcher has made the directories, but that of images, which may also be a link of root's. */
static int become_controller(const HelperOrders *orders, const Options *options, Paths *paths,
                             Problem *problem)
{
    const char *certificates = options->package_certificates;
    int r = hold(&paths->journals, O_NOFOLLOW);

    if (r == 0)
        r = hold(&paths->ended, O_NOFOLLOW);
    if (r == 0)
        r = hold(&paths->templates, O_NOFOLLOW);
    if (r == 0)
        r = hold(&paths->links, O_NOFOLLOW);
    mkdir(paths->images, 0755);
    if (r == 0)
        r = hold(&paths->images, 0);
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
    static const char *const parts[] = {"sessions",       "outputs",  "removed",
                                        "template-files", "packages", "memory-images"};
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
static int serve_separately(const HelperOrders *orders, Options *options, Paths *paths, Problem *problem)
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

static int separate_controller_main(int argc, char **argv)
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
        r = serve_separately(&orders, &options, &paths, &problem);
    if (r < 0)
        remote_unable(told, &problem);
    return r < 0;
}

static int separate_files_main(int argc, char **argv)
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

static int separate_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
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

/* ---- the program ---- */

/* In which a controller opens its engine and listens, or ends. */
#define OTHER_TIMEOUT (30 * NSEC_PER_SEC)
#define CHILD_TIMEOUT (5 * NSEC_PER_SEC)

static int complain(const Problem *problem)
{
    fprintf(stderr, "limpetd: %s\n", problem->text);
    return 1;
}

static void on_ready(void *userdata)
{
    detach_report(userdata, NULL);
    notify_ready();
}

/* Returns the time for which the holder of the lock is waited for. A controller that does not answer is about
 * to serve, or to end: if it was killed the kernel may take seconds to give back what it had. One that
 * answers may have been killed, too, and have left lock and socket to a child that is about to execute a
 * program. */
static uint64_t patience(const Paths *paths, bool detached)
{
    if (!unix_socket_answers(paths->socket))
        return OTHER_TIMEOUT;
    return detached ? 0 : CHILD_TIMEOUT;
}

/* -EWOULDBLOCK when another one serves, or neither serves nor ends. */
static int lock(Paths *paths, bool detached, Problem *problem)
{
    const struct timespec pause = {.tv_nsec = 20 * NSEC_PER_MSEC};
    uint64_t begun = clock_now();
    bool said = false;
    int r;

    while ((r = paths_lock(paths, problem)) == -EWOULDBLOCK &&
           clock_now() - begun < patience(paths, detached)) {
        if (!said)
            log_info("waiting", "reason=%s", problem->text);
        said = true;
        nanosleep(&pause, NULL);
    }
    return r;
}

static int control(const Options *options, Paths *paths, int *report, Problem *problem)
{
    int r;

    if (separate_is_due(options))
        return separate_run(options, paths, on_ready, report, problem);
    r = controller_claim_rights(options, paths, problem);
    if (r == 0)
        r = scheduling_claim(options->core, problem);
    return r < 0 ? r : controller_run(options, paths, NULL, on_ready, report, problem);
}

/* Serves; with `report` >= 0 whoever detached us is told how it went. */
static int serve(const Options *options, Paths *paths, int report)
{
    Problem problem = PROBLEM_NULL;
    int r = lock(paths, report >= 0, &problem);

    if (r == -EWOULDBLOCK && report >= 0 && unix_socket_answers(paths->socket)) {
        detach_report(&report, NULL);
        return 0;
    }
    if (r == 0)
        r = control(options, paths, &report, &problem);
    if (r < 0) {
        complain(&problem);
        detach_report(&report, problem.text);
    }
    return r < 0;
}

/* Connects the sessions of pods to the network. */
static int serve_egress(const Options *options)
{
    const bool root = geteuid() == 0;
    Problem problem = PROBLEM_NULL;
    Account account;
    int r = root ? account_find(options->egress_user, &account, &problem) : 0;

    if (r == 0)
        r = net_listen(options->listen, &problem);
    if (r >= 0)
        r = egress_service_run(r, options->egress_key, root ? &account : NULL, &problem);
    return r < 0 ? complain(&problem) : 0;
}

static int act(Action action, Options *options)
{
    Paths paths _cleanup_(paths_deinit) = PATHS_NULL;
    Problem problem = PROBLEM_NULL;
    int report = -1, status;

    umask(022);
    if (action == ACTION_EGRESS)
        return serve_egress(options);
    if (paths_init(&paths, options, &problem) < 0)
        return complain(&problem);
    if (action == ACTION_CHECK)
        return check_host(options, &paths);
    if (action == ACTION_DETACH &&
        ((status = service_start(&paths)) >= 0 || (status = detach(&paths, &report)) >= 0))
        return status;
    raise_descriptor_limit();
    return serve(options, &paths, report);
}

static int setup_log(const Options *options, Problem *problem)
{
    int level = log_level_from_name(options->log_level);

    if (level < 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "log_level cannot be '%s'; it is error, warn, info or debug", options->log_level);
    log_setup("limpetd", (LogLevel)level);
    return 0;
}

/* Opens standard descriptors that were closed: otherwise the next file that is opened would get what is
 * written to that stream. */
static int open_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd < 0 ? -errno : close(fd);
}

/* Programs that limpetd is when it has executed itself by another name. */
static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} helpers[] = {
    {EGRESS_PROGRAM, egress_main},
    {CONTROLLER_PROGRAM, separate_controller_main},
    {FILES_PROGRAM, separate_files_main},
};

int main(int argc, char **argv)
{
    Options options _cleanup_(options_deinit) = {0};
    Problem problem = PROBLEM_NULL;
    Action action;

    /* Without what is done at exit, for which they have no rights. */
    for (size_t i = 0; argc > 0 && i < ARRAY_SIZE(helpers); i++)
        if (strcmp(argv[0], helpers[i].name) == 0)
            _exit(helpers[i].main(argc, argv));
    /* Whoever started it may be gone before he is told how that went. */
    if (open_standard_descriptors() < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return 1;
    if (options_load(&options, argc, argv, &action, &problem) < 0 || setup_log(&options, &problem) < 0 ||
        package_index_settle(&options, &problem) < 0)
        return complain(&problem);
    switch (action) {
    case ACTION_HELP:
        options_print_help(stdout);
        return 0;
    case ACTION_MAN:
        options_print_man(stdout);
        return 0;
    case ACTION_VERSION:
        puts("limpetd " LIMPET_VERSION);
        return 0;
    default:
        return act(action, &options);
    }
}
