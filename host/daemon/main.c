#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "host/config/options.h"
#include "host/config/package_index.h"
#include "host/config/paths.h"
#include "host/daemon/check.h"
#include "host/daemon/controller.h"
#include "host/daemon/detach.h"
#include "host/daemon/notify.h"
#include "host/daemon/scheduling.h"
#include "host/daemon/separate.h"
#include "host/daemon/service.h"
#include "host/egress/process.h"
#include "host/link/unix_socket.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

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

static int act(Action action, Options *options)
{
    Paths paths _cleanup_(paths_deinit) = PATHS_NULL;
    Problem problem = PROBLEM_NULL;
    int report = -1, status;

    umask(022);
    if (paths_init(&paths, options, &problem) < 0)
        return complain(&problem);
    if (action == ACTION_CHECK)
        return check_host(options, &paths);
    if (action == ACTION_DETACH &&
        ((status = service_start(&paths)) >= 0 || (status = detach(&paths, &report)) >= 0))
        return status;
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
