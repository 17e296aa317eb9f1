#include "host/engine/oci_container.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/engine/attach.h"
#include "host/engine/processes.h"
#include "host/engine/view.h"
#include "proto/base/clock.h"
#include "proto/base/fdio.h"
#include "proto/base/log.h"
#include "proto/base/program.h"

/* ---- its bundle ---- */

static void bundle_remove(const char *bundle)
{
    DIR *directory = opendir(bundle);
    struct dirent *entry;

    if (!directory)
        return;
    while ((entry = readdir(directory)))
        unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(bundle);
}

int bundle_write(const char *bundle, const char *config)
{
    int directory _cleanup_(closep) = -1, file _cleanup_(closep) = -1;
    int r;

    if (mkdir(bundle, 0700) < 0)
        return -errno;
    directory = open(bundle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    file = openat(directory, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    r = file < 0 ? -errno : write_all(file, config, strlen(config));
    if (r < 0)
        bundle_remove(bundle);
    return r;
}

/* ---- its life ---- */

/* A killed container that has not ended by then is left to the runtime. */
#define KILL_SECONDS 5.0

void oci_container_free(OciContainer *container)
{
    list_remove(&container->link);
    loop_child_remove(&container->first);
    loop_child_remove(&container->runtime);
    loop_idle_remove(&container->idle);
    loop_timer_cancel(&container->timer);
    cgroups_deinit(&container->cgroups);
    free(container->name);
    free(container->bundle);
    free(container->log);
    free(container->pid_file);
    free(container);
}

void oci_container_cgroup(const OciContainer *container, char ret[static PATH_MAX])
{
    snprintf(ret, PATH_MAX, "/%s", container->name);
}

OciContainer *oci_container_new(OciEngine *oci, const char *name)
{
    OciContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return NULL;
    container->container.engine = &oci->engine;
    list_append(&oci->containers, &container->link);
    container->name = strdup(name);
    if (!container->name || asprintf(&container->bundle, "%s/%s", oci->bundles, name) < 0 ||
        asprintf(&container->log, "%s/log", container->bundle) < 0 ||
        asprintf(&container->pid_file, "%s/pid", container->bundle) < 0) {
        oci_container_free(container);
        return NULL;
    }
    return container;
}

/* ---- removing: kill, wait for the end, have the runtime delete what it knows ---- */

static void finish_removal(OciContainer *container)
{
    ContainerEvents events = container->container.events;
    void *userdata = container->container.userdata;

    data_unmount(oci_engine_of(container)->config.runtime_dir, container->name);
    view_remove(oci_engine_of(container)->config.runtime_dir, container->name);
    oci_container_free(container);
    events.removed(userdata);
}

static void on_nothing_there(LoopIdle *idle)
{
    finish_removal(container_of(idle, OciContainer, idle));
}

static void on_deleted(RuntimeJob *job, int status)
{
    OciContainer *container = container_of(job, OciContainer, job);
    char cgroup[PATH_MAX], message[512];

    oci_container_cgroup(container, cgroup);
    if (oci_engine_of(container)->limits)
        cgroup_remove(cgroup);
    if (status == 0) {
        bundle_remove(container->bundle);
    } else { /* the bundle stays, for a later sweep to try again */
        runtime_log_message(container->log, message, sizeof(message));
        log_warn("container not deleted", "container=%s status=%d reason=%s", container->name, status,
                 message);
    }
    finish_removal(container);
}

/* Has the runtime delete it; `removed` follows. */
static void oci_container_delete(OciContainer *container)
{
    OciEngine *oci = oci_engine_of(container);

    container->stage = OCI_DELETING;
    loop_timer_cancel(&container->timer);
    if (access(container->bundle, F_OK) < 0) { /* of an earlier controller, which had removed it already */
        loop_idle_add(oci->loop, &container->idle, on_nothing_there);
        return;
    }
    runtime_job_init(&container->job, &oci->runtime, NULL, container->log, container->network);
    runtime_job_add(&container->job, "delete");
    runtime_job_add(&container->job, "--force");
    runtime_job_add(&container->job, container->name);
    runtime_job_start(&container->job, on_deleted);
}

static void on_kill_due(LoopTimer *timer)
{
    oci_container_delete(container_of(timer, OciContainer, timer));
}

void oci_container_remove(Container *base)
{
    OciContainer *container = container_of(base, OciContainer, container);
    OciEngine *oci = oci_engine_of(container);

    if (container->removing)
        return;
    container->removing = true;
    if (container->stage == OCI_STARTING)
        return; /* goes on when the runtime is done */
    if (container->stage == OCI_RUNNING &&
        pidfd_send_signal(container->first.file.fd, SIGKILL, NULL, 0) == 0 &&
        loop_timer_set(oci->loop, &container->timer, clock_now() + clock_from_seconds(KILL_SECONDS),
                       on_kill_due) == 0)
        return; /* goes on when it has ended */
    oci_container_delete(container);
}

/* ---- running ---- */

static void describe_end(const OciContainer *container, int status, char *ret, size_t size)
{
    uint64_t kills;

    if (cgroup_read_memory(&container->cgroups.memory, NULL, &kills) == 0 && kills > 0)
        snprintf(ret, size,
                 "the container's first process ended; the kernel killed %llu of its processes for lack "
                 "of memory",
                 (unsigned long long)kills);
    else if (status >= 0 && WIFSIGNALED(status))
        snprintf(ret, size, "the container's first process was killed by signal %d", WTERMSIG(status));
    else if (status >= 0)
        snprintf(ret, size, "the container's first process ended with exit code %d", WEXITSTATUS(status));
    else
        snprintf(ret, size, "the container's first process ended");
}

static void on_first_exit(LoopChild *child, int status)
{
    OciContainer *container = container_of(child, OciContainer, first);
    Container *base = &container->container;
    char why[160];

    if (container->stage == OCI_DELETING)
        return;
    container->stage = OCI_ENDED;
    if (container->removing) {
        oci_container_delete(container);
        return;
    }
    describe_end(container, status, why, sizeof(why));
    base->events.gone(base, base->userdata, why);
}

static void oci_container_failed(OciContainer *container, const Problem *problem)
{
    Container *base = &container->container;

    container->stage = OCI_ENDED;
    base->events.failed(base, base->userdata, problem);
}

static void explain(OciContainer *container, int status, Problem *problem)
{
    const char *runtime = oci_engine_of(container)->runtime.name;
    char message[512];

    runtime_log_message(container->log, message, sizeof(message));
    if (*message)
        problem_set(problem, ERR_ENGINE_ERROR, "%s: %s", runtime, message);
    else if (status == -ESRCH)
        problem_set(problem, ERR_ENGINE_ERROR,
                    "the container's first process ended right after %s started it", runtime);
    else if (status < 0)
        problem_set(problem, ERR_ENGINE_ERROR, "cannot start %s: %s", runtime, strerror(-status));
    else if (WIFSIGNALED(status))
        problem_set(problem, ERR_ENGINE_ERROR, "%s was killed by signal %d while starting the container",
                    runtime, WTERMSIG(status));
    else
        problem_set(problem, ERR_ENGINE_ERROR, "%s failed with status %d and without a message", runtime,
                    WEXITSTATUS(status));
}

static bool has_ended(const LoopChild *child)
{
    struct pollfd end = {.fd = child->file.fd, .events = POLLIN};

    return poll(&end, 1, 0) > 0;
}

bool oci_container_has(const OciContainer *container, pid_t pid)
{
    const OciEngine *oci = oci_engine_of(container);

    return oci->limits ? cgroup_has_process(container->name, pid)
                       : runtime_has_started(&oci->runtime, container->name, pid);
}

/* Finds its first process, and is told of its end from now on. Negative when there is none, or none any more.
 * Its pid may have been given to another process since; not any more once it is watched. */
static int oci_container_watch(OciContainer *container)
{
    pid_t pid;
    int r = runtime_read_pid(container->pid_file, &pid);

    if (r == 0)
        r = loop_child_add(oci_engine_of(container)->loop, &container->first, pid, on_first_exit);
    if (r < 0)
        return r;
    if (oci_container_has(container, pid) && !has_ended(&container->first))
        return 0;
    loop_child_remove(&container->first);
    return -ESRCH;
}

static void oci_container_started(OciContainer *container)
{
    Container *base = &container->container;
    bool own_kernel = oci_engine_of(container)->runtime.kind == RUNTIME_RUNSC;

    if (oci_engine_of(container)->limits)
        cgroups_init(&container->cgroups, container->first.pid);
    container->stage = OCI_RUNNING;
    base->events.started(base, base->userdata, own_kernel ? 0 : container->first.pid);
}

static void on_run(RuntimeJob *job, int status)
{
    OciContainer *container = container_of(job, OciContainer, job);
    Problem problem = PROBLEM_NULL;

    if (container->removing) {
        oci_container_delete(container);
        return;
    }
    if (status == 0)
        status = oci_container_watch(container);
    if (status == 0) {
        oci_container_started(container);
        return;
    }
    explain(container, status, &problem);
    oci_container_failed(container, &problem);
}

void oci_container_run(OciContainer *container)
{
    RuntimeJob *job = &container->job;
    OciEngine *oci = oci_engine_of(container);
    Runtime *runtime = &oci->runtime;

    runtime_job_init(job, runtime, oci->clock.with, container->log, container->network);
    runtime_job_add(job, "run");
    runtime_job_add(job, "--detach");
    /* A user has 200 keyrings, and all sandboxes are one user. profile/seccomp.json lets none use keys. */
    if (runtime->kind != RUNTIME_RUNSC)
        runtime_job_add(job, "--no-new-keyring");
    runtime_job_add(job, "--bundle");
    runtime_job_add(job, container->bundle);
    runtime_job_add(job, "--pid-file");
    runtime_job_add(job, container->pid_file);
    runtime_job_add(job, container->name);
    runtime_job_start(job, on_run);
}

/* ---- adopting one: what its bundle says is compared with the processes there are ---- */

/* A runtime that has not started the container by then never will. */
#define RUNTIME_SECONDS 60.0

#define BUNDLE_OPTION "--bundle"

static void look(OciContainer *container);

static void on_runtime_exit(LoopChild *child, int status)
{
    OciContainer *container = container_of(child, OciContainer, runtime);

    loop_timer_cancel(&container->timer);
    look(container);
}

static void on_runtime_due(LoopTimer *timer)
{
    OciContainer *container = container_of(timer, OciContainer, timer);

    log_warn("runtime killed", "container=%s pid=%d", container->name, (int)container->runtime.pid);
    pidfd_send_signal(container->runtime.file.fd, SIGKILL, NULL, 0);
}

static void found_runtime(void *userdata, pid_t pid, const char *bundle)
{
    OciContainer *container = userdata;
    Loop *loop = oci_engine_of(container)->loop;

    if (container->runtime.file.loop || strcmp(bundle, container->bundle) != 0 ||
        loop_child_add(loop, &container->runtime, pid, on_runtime_exit) < 0)
        return;
    if (process_is(pid, BUNDLE_OPTION, container->bundle))
        loop_timer_set(loop, &container->timer, clock_now() + clock_from_seconds(RUNTIME_SECONDS),
                       on_runtime_due);
    else
        loop_child_remove(&container->runtime);
}

/* Returns whether a runtime still works on the container: its end is waited for then. */
static bool runtime_is_at_it(OciContainer *container)
{
    process_find(BUNDLE_OPTION, container->bundle, found_runtime, container);
    return container->runtime.file.loop != NULL;
}

static void report_missing(OciContainer *container)
{
    Problem problem = PROBLEM_NULL;
    char message[512];

    runtime_log_message(container->log, message, sizeof(message));
    problem_set(&problem, ERR_ENGINE_ERROR, "the container of the previous controller has ended%s%s",
                *message ? ": " : "", message);
    oci_container_failed(container, &problem);
}

/* Looks how an adopted container stands. One to be removed is removed when no runtime can start it any
 * more. */
static void look(OciContainer *container)
{
    if (!container->removing && oci_container_watch(container) == 0)
        oci_container_started(container);
    else if (runtime_is_at_it(container))
        return;
    else if (container->removing)
        oci_container_delete(container);
    else
        report_missing(container);
}

static void on_look(LoopIdle *idle)
{
    look(container_of(idle, OciContainer, idle));
}

void oci_container_adopt(OciContainer *container)
{
    container->stage = OCI_STARTING;
    loop_idle_add(oci_engine_of(container)->loop, &container->idle, on_look);
}
