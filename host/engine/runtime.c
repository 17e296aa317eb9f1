#include "host/engine/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "host/engine/profile.h"
#include "proto/base/buf.h"
#include "proto/base/clock.h"
#include "proto/base/program.h"

#define AT_ONCE         4u
#define JOB_SECONDS     60.0
#define VERSION_SECONDS 10.0
#define VERSION_LIMIT   4096u
#define LOG_LIMIT       (256u << 10)

static void start_waiting(LoopIdle *idle);

static int ask_version(Runtime *runtime, Problem *problem)
{
    const char *const argv[] = {runtime->path, "--version", NULL};
    Buf said = {.limit = VERSION_LIMIT};
    int r = capture_program(argv, VERSION_SECONDS, &said);

    if (r == 0 && buf_append(&said, "", 1) == 0 &&
        sscanf((const char *)buf_head(&said), "%15s version %47s", runtime->name, runtime->version) != 2)
        r = -EBADMSG;
    buf_deinit(&said);
    if (r != 0)
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "%s --version prints no version; set the option oci_runtime to an OCI runtime",
                           runtime->path);
    return 0;
}

int runtime_init(Runtime *runtime, Loop *loop, const char *program, const char *root, Problem *problem)
{
    int r;

    *runtime = (Runtime){.loop = loop};
    list_init(&runtime->waiting);
    r = spawn_find(program, &runtime->path);
    if (r == -ENOENT)
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "the OCI runtime '%s' is not installed; install runc or crun, or set another one "
                           "with the option oci_runtime",
                           program);
    runtime->root = strdup(root);
    r = r == 0 && runtime->root ? ask_version(runtime, problem)
                                : problem_set(problem, ERR_INTERNAL, "out of memory");
    if (r < 0) {
        runtime_deinit(runtime);
        return r;
    }
    if (strcmp(runtime->name, "crun") == 0)
        runtime->kind = RUNTIME_CRUN;
    else if (strcmp(runtime->name, "runsc") == 0)
        runtime->kind = RUNTIME_RUNSC;
    return 0;
}

void runtime_deinit(Runtime *runtime)
{
    if (runtime->idle.armed)
        loop_idle_remove(&runtime->idle);
    free(runtime->path);
    free(runtime->root);
    runtime->path = runtime->root = NULL;
}

bool runtime_is_dated(const Runtime *runtime)
{
    unsigned major, minor, patch;

    if (runtime->kind != RUNTIME_RUNC || sscanf(runtime->version, "%u.%u.%u", &major, &minor, &patch) != 3)
        return false;
    if (major != 1 || minor > 3)
        return major < 1;
    return minor < 2 || (minor == 2 && patch < 8) || (minor == 3 && patch < 3);
}

/* ---- commands ---- */

void runtime_job_init(RuntimeJob *job, Runtime *runtime, const char *const *with, const char *log,
                      const char *network)
{
    *job = (RuntimeJob){.runtime = runtime};
    list_init(&job->link);
    for (; with && *with; with++)
        runtime_job_add(job, *with);
    runtime_job_add(job, runtime->path);
    runtime_job_add(job, "--root");
    runtime_job_add(job, runtime->root);
    runtime_job_add(job, "--log");
    runtime_job_add(job, log);
    runtime_job_add(job, "--log-format");
    runtime_job_add(job, "json");
    if (runtime->kind == RUNTIME_RUNSC) {
        runtime_job_add(job, "--host-uds=open");
        runtime_job_add(job, strcmp(network, "host") == 0 ? "--network=host" : "--network=none");
    }
    if (runtime->kind == RUNTIME_CRUN && runtime->groupless)
        runtime_job_add(job, "--cgroup-manager=disabled"); /* runc sees by itself that it may make none */
}

void runtime_job_add(RuntimeJob *job, const char *argument)
{
    job->arguments[job->argument_count++] = argument;
}

static void finish(RuntimeJob *job, int status)
{
    Runtime *runtime = job->runtime;

    loop_timer_cancel(&job->timer);
    runtime->running--;
    if (!list_empty(&runtime->waiting))
        loop_idle_add(runtime->loop, &runtime->idle, start_waiting);
    job->on_done(job, status);
}

static void on_exit_of_job(LoopChild *child, int status)
{
    finish(container_of(child, RuntimeJob, child), status);
}

static void on_job_due(LoopTimer *timer)
{
    RuntimeJob *job = container_of(timer, RuntimeJob, timer);

    kill(job->child.pid, SIGKILL);
}

static int start(RuntimeJob *job)
{
    Loop *loop = job->runtime->loop;
    pid_t pid;
    int r = spawn(job->arguments, -1, &pid);

    if (r < 0)
        return r;
    r = loop_child_add(loop, &job->child, pid, on_exit_of_job);
    if (r < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return r;
    }
    /* Without memory for a timer it may take as long as it likes. */
    loop_timer_set(loop, &job->timer, clock_now() + clock_from_seconds(JOB_SECONDS), on_job_due);
    return 0;
}

static void start_waiting(LoopIdle *idle)
{
    Runtime *runtime = container_of(idle, Runtime, idle);
    List *link;

    while (runtime->running < AT_ONCE && (link = list_first(&runtime->waiting))) {
        RuntimeJob *job = list_entry(link, RuntimeJob, link);
        int r;

        list_remove(&job->link);
        runtime->running++;
        r = start(job);
        if (r < 0)
            finish(job, r);
    }
}

void runtime_job_start(RuntimeJob *job, void (*on_done)(RuntimeJob *job, int status))
{
    job->on_done = on_done;
    list_append(&job->runtime->waiting, &job->link);
    loop_idle_add(job->runtime->loop, &job->runtime->idle, start_waiting);
}

/* Takes the message of a line of a log if it is an error: {"level": "error", "msg": "..."} */
static void take_message(const char *line, size_t length, char *ret, size_t size)
{
    json_t *entry _cleanup_(json_decrefp) = json_loadb(line, length, 0, NULL);
    const char *level = json_string_value(json_object_get(entry, "level"));
    const char *message = json_string_value(json_object_get(entry, "msg"));

    if (level && message && (strcmp(level, "error") == 0 || strcmp(level, "fatal") == 0))
        snprintf(ret, size, "%s", message);
}

void runtime_log_message(const char *log, char *ret, size_t size)
{
    char *text _cleanup_(freep) = NULL;

    *ret = '\0';
    if (capture_file(log, LOG_LIMIT, &text) < 0)
        return;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");

        take_message(line, length, ret, size);
        line += length + (line[length] == '\n');
    }
}

/* ---- the state of a container, as the runtime has written it down ---- */

#define STAT_LIMIT  4096u
#define START_FIELD 22 /* of /proc/PID/stat */

int runtime_read_pid(const char *path, pid_t *ret)
{
    char *text _cleanup_(freep) = NULL;
    int r = capture_file(path, 32, &text);
    long pid = r == 0 ? strtol(text, NULL, 10) : 0;

    if (pid <= 1 || pid > INT32_MAX)
        return r < 0 ? r : -EBADMSG;
    *ret = (pid_t)pid;
    return 0;
}

/* Ticks since the machine started, -1: no such process. */
static json_int_t start_of(pid_t pid)
{
    char *text _cleanup_(freep) = NULL, path[64];
    const char *at;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (capture_file(path, STAT_LIMIT, &text) < 0 || !(at = strrchr(text, ')')))
        return -1;
    for (unsigned field = 2; field < START_FIELD && at; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at + 1, NULL, 10) : -1;
}

bool runtime_has_started(const Runtime *runtime, const char *name, pid_t pid)
{
    bool crun = runtime->kind == RUNTIME_CRUN;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s/%s", runtime->root, name, crun ? "status" : "state.json");
    json_t *state _cleanup_(json_decrefp) = json_load_file(path, 0, NULL);
    const json_t *its = json_object_get(state, crun ? "pid" : "init_process_pid");
    const json_t *start = json_object_get(state, crun ? "process-start-time" : "init_process_start");

    return json_integer_value(its) == pid && json_is_integer(start) &&
           json_integer_value(start) == start_of(pid);
}

/* ---- the clock of containers ---- */

/* 2026-01-01: Python's floating-point seconds since then have nanoseconds. */
#define DATE INT64_C(1767225600)

#define PROBE_SECONDS 10.0
#define PROBE_LIMIT   4096u

/* Seconds by which this process's clock is ahead of the machine's: offsets count from that. */
static int read_own(int64_t *ret)
{
    char *text _cleanup_(freep) = NULL;
    int r = capture_file("/proc/self/timens_offsets", PROBE_LIMIT, &text);
    const char *at = r == 0 ? strstr(text, "monotonic") : NULL;

    if (r < 0)
        return r;
    return at && sscanf(at, "monotonic %" SCNd64, ret) == 1 ? 0 : -EBADMSG;
}

/* The same whenever it is asked for, until the date of the machine is set. */
static int64_t find_offset(int64_t own)
{
    int64_t ahead = (int64_t)(clock_unix() * 1e6) - (int64_t)(clock_now() / NSEC_PER_USEC);

    return ahead / 1000000 + own - DATE;
}

/* The runtime, which is of many threads, has to be in the namespace itself: Linux 6.1. */
static int probe(const ContainerClock *clock, const Runtime *runtime)
{
    const char *const argv[] = {clock->program, clock->with[1], clock->offset,
                                runtime->path,  "--version",    NULL};
    Buf said = {.limit = PROBE_LIMIT};
    int r = capture_program(argv, PROBE_SECONDS, &said);

    buf_deinit(&said);
    return r <= 0 ? r : -EPERM;
}

int container_clock_open(ContainerClock *ret, const Runtime *runtime)
{
    int64_t own = 0;
    int r = runtime->kind == RUNTIME_RUNSC ? -ENOTSUP : read_own(&own);

    *ret = (ContainerClock){0};
    if (r == 0)
        r = spawn_find("unshare", &ret->program);
    if (r == 0) {
        snprintf(ret->offset, sizeof(ret->offset), "--monotonic=%" PRId64, find_offset(own));
        ret->with[0] = ret->program;
        ret->with[1] = "--time";
        ret->with[2] = ret->offset;
        r = probe(ret, runtime);
    }
    if (r < 0)
        container_clock_close(ret);
    return r;
}

void container_clock_close(ContainerClock *clock)
{
    free(clock->program);
    *clock = (ContainerClock){0};
}
