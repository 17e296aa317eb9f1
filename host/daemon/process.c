#include "host/daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/base.h"
#include "proto/base/log.h"
#include "proto/base/program.h"

/* ---- in the background ---- */

#define LOG_LIMIT ((size_t)1 << 20) /* bytes of limpetd.log, and of the older one beside it */

/* Reads the child's report: empty means that it serves. */
static int wait_for_report(int fd)
{
    char text[PROBLEM_TEXT_MAX + 64];
    size_t size = 0;
    ssize_t n;

    while ((n = read(fd, text + size, sizeof(text) - 1 - size)) > 0 || (n < 0 && errno == EINTR))
        size += n > 0 ? (size_t)n : 0;
    text[size] = '\0';
    if (strcmp(text, "ready") == 0)
        return 0;
    fprintf(stderr, "limpetd: %s\n", size ? text : "the controller ended while starting; see its log");
    return 1;
}

/* Nothing of the caller's is kept: session, directory, descriptors. */
static int become_daemon(const Paths *paths)
{
    char log[PATH_MAX];
    int null;

    snprintf(log, sizeof(log), "%s/limpetd.log", paths->state_dir);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || setsid() < 0 || chdir("/") < 0)
        return -errno;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (log_to_file(log, LOG_LIMIT) < 0)
        dup2(null, STDERR_FILENO);
    close(null); /* no standard descriptor: main() has seen to it that those are taken */
    return 0;
}

int detach(const Paths *paths, int *ret_report)
{
    int pipe_fds[2];
    pid_t pid;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return 1;
    pid = fork();
    if (pid < 0)
        return 1;
    if (pid > 0) {
        int status;
        close(pipe_fds[1]);
        status = wait_for_report(pipe_fds[0]);
        close(pipe_fds[0]);
        return status;
    }
    close(pipe_fds[0]);
    *ret_report = pipe_fds[1];
    if (become_daemon(paths) < 0) {
        detach_report(ret_report, "cannot run in the background");
        _exit(1);
    }
    return -1;
}

void detach_report(int *report, const char *text)
{
    const char *words = text ? text : "ready";

    if (*report < 0)
        return;
    if (write(*report, words, strlen(words)) < 0)
        errno = 0; /* the asker is gone; the controller serves all the same */
    close_fd(report);
}

/* ---- as a service of systemd ---- */

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

/* ---- telling the service manager ---- */

#define READY "READY=1"

/* Its address; the length, or 0 when that is none. */
static socklen_t address_of(const char *path, struct sockaddr_un *ret)
{
    size_t length = path ? strlen(path) : 0;

    if (length < 2 || length >= sizeof(ret->sun_path) || (*path != '/' && *path != '@'))
        return 0;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, path, length);
    if (*path == '@')
        ret->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

void notify_ready(void)
{
    struct sockaddr_un address;
    socklen_t length = address_of(getenv("NOTIFY_SOCKET"), &address);
    int fd _cleanup_(closep) = -1;

    if (length == 0)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sendto(fd, READY, strlen(READY), MSG_NOSIGNAL, (struct sockaddr *)&address, length) < 0)
        log_warn("cannot notify the service manager", "error=%s", strerror(errno));
    unsetenv("NOTIFY_SOCKET"); /* programs started from here on are no service of its */
}

/* ---- scheduling ---- */

#define LOOP_NICE (-10)

/* -1: any. -EPROTO with the problem set. */
static int parse(const char *core, int *ret, Problem *problem)
{
    cpu_set_t allowed;
    char *end;
    long number;

    *ret = -1;
    if (strcmp(core, "auto") == 0 || sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        return 0;
    number = strtol(core, &end, 10);
    if (end == core || *end || number < 0 || number >= CPU_SETSIZE || !CPU_ISSET((int)number, &allowed))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "core cannot be '%s'; it is auto, off, or the number of a processor this process may use", core);
    *ret = (int)number;
    return 0;
}

static void bind_to(int processor)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        log_warn("not pinned to a processor", "core=%d", processor);
}

int scheduling_claim(const char *core, Problem *problem)
{
    int processor, r;

    if (strcmp(core, "off") == 0)
        return 0;
    r = parse(core, &processor, problem);
    if (r < 0)
        return r;
    if (processor >= 0)
        bind_to(processor);
    /* Only root may; everybody else runs at the usual priority. */
    setpriority(PRIO_PROCESS, 0, LOOP_NICE);
    return 0;
}
