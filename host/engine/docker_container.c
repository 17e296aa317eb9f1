#include "host/engine/docker_container.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/attach.h"
#include "host/engine/view.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define WAIT_AGAIN 2.0 /* seconds after the daemon went away, until it is asked again */

static DockerEngine *engine_of(DockerContainer *container)
{
    return container_of(container->container.engine, DockerEngine, engine);
}

static void container_free(DockerContainer *container)
{
    list_remove(&container->link);
    loop_timer_cancel(&container->wait_timer);
    loop_idle_remove(&container->idle);
    cgroups_deinit(&container->cgroups);
    free(container->session_dir);
    free(container->scratch_dir);
    free(container);
}

DockerContainer *docker_container_new(DockerEngine *docker, const char *name, const char *session_dir,
                                      const char *scratch_dir)
{
    DockerContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return NULL;
    container->container.engine = &docker->engine;
    list_append(&docker->containers, &container->link);
    snprintf(container->name, sizeof(container->name), "%s", name);
    container->session_dir = session_dir ? strdup(session_dir) : NULL;
    container->scratch_dir = scratch_dir ? strdup(scratch_dir) : NULL;
    if ((session_dir && !container->session_dir) || (scratch_dir && !container->scratch_dir)) {
        container_free(container);
        return NULL;
    }
    return container;
}

/* Docker takes no mount flags for a bind, but keeps those of what it binds. Without the right to mount a
 * container has to do with no-new-privileges and no right to make devices. */
static void restrict_mount(DockerContainer *container, char **directory)
{
    int r = *directory ? mounts_restrict(*directory) : 0;

    if (r == 0)
        return;
    if (r != -EPERM)
        log_warn("mount flags not set", "container=%s reason=%s", container->name, strerror(-r));
    free(take(*directory)); /* nothing to release */
}

static void release_mounts(DockerContainer *container)
{
    if (container->session_dir)
        mounts_release(container->session_dir);
    if (container->scratch_dir)
        mounts_release(container->scratch_dir);
    data_unmount(engine_of(container)->config.runtime_dir, container->name);
    view_remove(engine_of(container)->config.runtime_dir, container->name);
}

/* ---- calls ---- */

static int call(DockerContainer *container, const char *method, const char *suffix, const char *body,
                double seconds, DockerDone done)
{
    DockerEngine *docker = engine_of(container);
    char path[DOCKER_PATH_SIZE];

    snprintf(path, sizeof(path), "/v1.%u/containers/%s%s", docker->api_minor, container->name, suffix);
    return docker_http_start(docker->http, method, path, body, seconds, done, container, &container->call);
}

/* Sets the problem that the daemon told, or why it told nothing. */
void docker_explain(DockerEngine *docker, const DockerReply *reply, Problem *problem)
{
    char message[600];

    if (!reply) {
        problem_set(problem, ERR_INTERNAL, "out of memory");
        return;
    }
    if (reply->failure) {
        problem_set(problem, ERR_ENGINE_ERROR,
                    "docker: the engine on %s does not answer (%s); check it with: systemctl status docker",
                    docker->config.docker_socket, reply->failure);
        return;
    }
    docker_json_message(reply->body, reply->size, message, sizeof(message));
    problem_set(problem, ERR_ENGINE_ERROR, "docker: %s", message);
}

/* ---- removing ---- */

static void finish_removal(DockerContainer *container)
{
    ContainerEvents events = container->container.events;
    void *userdata = container->container.userdata;

    release_mounts(container);
    container_free(container);
    events.removed(userdata);
}

static void on_removal_idle(LoopIdle *idle)
{
    finish_removal(container_of(idle, DockerContainer, idle));
}

static void on_deleted(void *userdata, const DockerReply *reply)
{
    DockerContainer *container = userdata;
    Problem problem = PROBLEM_NULL;

    container->call = NULL;
    /* 404: gone already; 409: being removed already. */
    if (reply->status != 204 && reply->status != 404 && reply->status != 409) {
        docker_explain(engine_of(container), reply, &problem);
        log_warn("container not deleted", "container=%s reason=%s", container->name, problem.text);
    }
    finish_removal(container);
}

static void delete (DockerContainer *container)
{
    if (!container->made ||
        call(container, "DELETE", "?force=true&v=true", NULL, DOCKER_CALL_SECONDS, on_deleted) < 0)
        loop_idle_add(engine_of(container)->loop, &container->idle, on_removal_idle);
}

void docker_container_remove(Container *base)
{
    DockerContainer *container = container_of(base, DockerContainer, container);

    if (container->removing)
        return;
    container->removing = true;
    if (container->starting)
        return; /* goes on when the call is done */
    if (container->call)
        docker_call_cancel(take(container->call));
    loop_timer_cancel(&container->wait_timer);
    delete (container);
}

void docker_container_leave(Container *base)
{
    DockerContainer *container = container_of(base, DockerContainer, container);

    if (container->call)
        docker_call_cancel(take(container->call));
    container_free(container);
}

/* ---- running ---- */

static void wait_for_end(DockerContainer *container);

static void on_wait_due(LoopTimer *timer)
{
    wait_for_end(container_of(timer, DockerContainer, wait_timer));
}

/* A broken connection says nothing about the container, which outlives a daemon with live restore: asking
 * again is answered at once where it has ended. */
static void wait_again(DockerContainer *container)
{
    loop_timer_set(engine_of(container)->loop, &container->wait_timer,
                   clock_now() + clock_from_seconds(WAIT_AGAIN), on_wait_due);
}

static void on_waited(void *userdata, const DockerReply *reply)
{
    DockerContainer *container = userdata;
    Container *base = &container->container;
    uint64_t kills;
    char why[160];
    int code = -1;

    container->call = NULL;
    if (reply->status != 404 &&
        (reply->status != 200 || docker_json_exit_code(reply->body, reply->size, &code) < 0)) {
        wait_again(container);
        return;
    }
    if (reply->status == 404)
        snprintf(why, sizeof(why), "the container was removed by another program");
    else if (cgroup_read_memory(&container->cgroups.memory, NULL, &kills) == 0 && kills > 0)
        snprintf(why, sizeof(why),
                 "the container's first process ended; the kernel killed %llu of its processes for "
                 "lack of memory",
                 (unsigned long long)kills);
    else
        snprintf(why, sizeof(why), "the container's first process ended with exit code %d", code);
    base->events.gone(base, base->userdata, why);
}

static void wait_for_end(DockerContainer *container)
{
    if (call(container, "POST", "/wait?condition=not-running", NULL, 0, on_waited) < 0)
        wait_again(container);
}

/* The end of a step of starting: true when the next one is to come. */
static bool step_ended(DockerContainer *container)
{
    container->call = NULL;
    container->starting = false;
    if (container->removing)
        delete (container);
    return !container->removing;
}

static void fail(DockerContainer *container, const Problem *problem)
{
    Container *base = &container->container;

    container->starting = false;
    base->events.failed(base, base->userdata, problem);
}

static void fail_with_reply(DockerContainer *container, const DockerReply *reply)
{
    Problem problem = PROBLEM_NULL;

    docker_explain(engine_of(container), reply, &problem);
    fail(container, &problem);
}

static void step(DockerContainer *container, const char *method, const char *suffix, DockerDone done)
{
    container->starting = true;
    if (call(container, method, suffix, NULL, DOCKER_CALL_SECONDS, done) < 0)
        fail_with_reply(container, NULL);
}

static void on_inspected(void *userdata, const DockerReply *reply)
{
    DockerContainer *container = userdata;
    Container *base = &container->container;
    Problem problem = PROBLEM_NULL;
    DockerState state;

    if (!step_ended(container))
        return;
    if (reply->status != 200 || docker_json_state(reply->body, reply->size, &state) < 0) {
        fail_with_reply(container, reply);
        return;
    }
    if (!state.running) {
        problem_set(&problem, ERR_ENGINE_ERROR, "docker: the container has ended with exit code %d %s",
                    state.exit_code, state.error);
        fail(container, &problem);
        return;
    }
    container->state = state;
    cgroups_init(&container->cgroups, state.pid);
    wait_for_end(container);
    base->events.started(base, base->userdata, state.pid); /* may be left, or removed, from there */
}

static void on_started(void *userdata, const DockerReply *reply)
{
    DockerContainer *container = userdata;

    if (!step_ended(container))
        return;
    if (reply->status == 204)
        step(container, "GET", "/json", on_inspected);
    else
        fail_with_reply(container, reply);
}

static void on_created(void *userdata, const DockerReply *reply)
{
    DockerContainer *container = userdata;
    Problem problem = PROBLEM_NULL;

    /* Without an answer it may have been made. */
    container->made = reply->status == 201 || reply->failure;
    if (!step_ended(container))
        return;
    if (reply->status == 201) {
        step(container, "POST", "/start", on_started);
        return;
    }
    docker_explain(engine_of(container), reply, &problem);
    if (reply->status == 404)
        problem_set(&problem, ERR_IMAGE_MISSING,
                    "the Docker Engine does not have the image; build it with: limpet image build");
    fail(container, &problem);
}

int docker_container_start(DockerContainer *container, const char *body)
{
    DockerEngine *docker = engine_of(container);
    char path[DOCKER_PATH_SIZE];
    int r;

    container->starting = true;
    restrict_mount(container, &container->session_dir);
    restrict_mount(container, &container->scratch_dir);
    snprintf(path, sizeof(path), "/v1.%u/containers/create?name=%s", docker->api_minor, container->name);
    r = docker_http_start(docker->http, "POST", path, body, DOCKER_CALL_SECONDS, on_created, container,
                          &container->call);
    if (r < 0) {
        release_mounts(container);
        container_free(container);
    }
    return r;
}

int docker_container_adopt(DockerContainer *container)
{
    int r;

    container->made = container->starting = true;
    r = call(container, "GET", "/json", NULL, DOCKER_CALL_SECONDS, on_inspected);
    if (r < 0)
        container_free(container);
    return r;
}
