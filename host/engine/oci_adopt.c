/* Adopting a container: what its bundle says of it is compared with the processes there are. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "host/engine/bundle.h"
#include "host/engine/oci_container.h"
#include "host/engine/procfind.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

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
