/* The engine for a controller in a pod: another container of the pod runs the one guest there is, and
 * somebody else, such as a kubelet, starts that container and has mounted the places of the session in it.
 * The guest waits until CURRENT in the directory of links leads to the directory of its session. There it
 * opens ALIVE, a pipe that nobody writes to: whoever holds the other end is told by the kernel when the guest
 * is gone, and a controller that takes over finds out whether it still lives. Where ENDED is, no session
 * comes any more: a guest that starts then ends by itself, as a signal that reaches process 1 too early is
 * lost. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/engine/attach.h"
#include "host/engine/check.h"
#include "host/engine/engine.h"
#include "proto/base/base.h"
#include "proto/base/clock.h"

#define CURRENT ".current"
#define ENDED   ".ended"
#define ALIVE   "alive"

#define LOOK_NSEC (20 * NSEC_PER_MSEC)

typedef struct PodEngine {
    Engine engine;
    Loop *loop;
    EngineConfig config;
    LoopIdle sweep_idle;
    void (*sweep_done)(void *userdata, unsigned removed);
    void *sweep_userdata;
    char ended[PATH_MAX]; /* path of ENDED; empty: no guest was shown a session */
} PodEngine;

typedef struct PodContainer {
    Container container;
    char alive[PATH_MAX], current[PATH_MAX];
    LoopFile file;  /* our end of the pipe, from when the guest is there */
    LoopTimer look; /* for the guest */
    LoopIdle idle;  /* tells of what was found, or of the removal */
} PodContainer;

static PodEngine *engine_of(const PodContainer *container)
{
    return container_of(container->container.engine, PodEngine, engine);
}

static void container_free(PodContainer *container)
{
    loop_timer_cancel(&container->look);
    loop_idle_remove(&container->idle);
    if (container->file.loop)
        loop_file_remove(&container->file);
    close_fd(&container->file.fd);
    free(container);
}

/* ---- the guest ---- */

static void on_guest_gone(LoopFile *file, uint32_t events)
{
    PodContainer *container = container_of(file, PodContainer, file);
    Container *base = &container->container;

    loop_file_remove(file);
    base->events.gone(base, base->userdata, "the container of the guest has ended");
}

/* Returns whether the guest is there. */
static bool meet_guest(PodContainer *container)
{
    int fd = open(container->alive, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return false;
    container->file.fd = fd;
    return loop_file_add(engine_of(container)->loop, &container->file, fd, 0, on_guest_gone) == 0;
}

static void on_look_due(LoopTimer *timer)
{
    PodContainer *container = container_of(timer, PodContainer, look);
    Container *base = &container->container;

    if (meet_guest(container))
        base->events.started(base, base->userdata, 0);
    else
        loop_timer_set(engine_of(container)->loop, timer, clock_now() + LOOK_NSEC, on_look_due);
}

/* ---- making ---- */

static int container_new(PodContainer **ret, PodEngine *pod, const ContainerSpec *spec,
                         const ContainerEvents *events, void *userdata, Problem *problem)
{
    const int parent = (int)(strrchr(spec->link_dir, '/') - spec->link_dir);
    PodContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    container->container = (Container){.engine = &pod->engine, .events = *events, .userdata = userdata};
    container->file.fd = -1;
    snprintf(container->alive, PATH_MAX, "%s/" ALIVE, spec->link_dir);
    snprintf(container->current, PATH_MAX, "%.*s/" CURRENT, parent, spec->link_dir);
    snprintf(pod->ended, PATH_MAX, "%.*s/" ENDED, parent, spec->link_dir);
    unlink(pod->ended);
    *ret = container;
    return 0;
}

/* Refuses what was settled with the pod, or what none has. */
static int check_spec(const PodEngine *pod, const ContainerSpec *spec, Problem *problem)
{
    const EngineConfig *config = &pod->config;

    if (spec->memory != config->memory || spec->cpus != config->cpus)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "memory and cpus of a session in a pod are those of the pod: %llu bytes and %g; "
                           "leave them out, or use a pod that has what you need",
                           (unsigned long long)config->memory, config->cpus);
    if (strcmp(spec->image, config->image) != 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "the image of a session in a pod is that of the pod; leave image out");
    if (strcmp(spec->network, "none") != 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a session in a pod has the network 'none'; leave network out");
    if (spec->data >= 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a session in a pod has no data directory; use put to bring files along");
    return 0;
}

/* CURRENT is relative, as the guest has the directory at another path. */
static int show_to_guest(const PodContainer *container, const ContainerSpec *spec, Problem *problem)
{
    if (mkfifo(container->alive, 0400) == 0 && (unlink(container->current) == 0 || errno == ENOENT) &&
        symlink(strrchr(spec->link_dir, '/') + 1, container->current) == 0)
        return 0;
    return problem_set(problem, ERR_ENGINE_ERROR, "cannot show the guest its session in %s: %s",
                       spec->link_dir, strerror(errno));
}

static int pod_create(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                      void *userdata, Container **ret, Problem *problem)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);
    PodContainer *container = NULL;
    int r = check_spec(pod, spec, problem);

    if (r == 0)
        r = container_new(&container, pod, spec, events, userdata, problem);
    if (!container)
        return r;
    r = show_to_guest(container, spec, problem);
    if (r < 0) {
        container_free(container);
        return r;
    }
    loop_timer_set(pod->loop, &container->look, clock_now(), on_look_due);
    *ret = &container->container;
    return 0;
}

static void on_adopted_idle(LoopIdle *idle)
{
    PodContainer *container = container_of(idle, PodContainer, idle);
    Container *base = &container->container;
    Problem problem = PROBLEM_NULL;

    if (container->file.loop) {
        base->events.started(base, base->userdata, 0);
        return;
    }
    problem_set(&problem, ERR_ENGINE_ERROR, "the container of its guest has ended");
    base->events.failed(base, base->userdata, &problem);
}

static int pod_adopt(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events, void *userdata,
                     Container **ret, Problem *problem)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);
    PodContainer *container = NULL;
    int r = container_new(&container, pod, spec, events, userdata, problem);

    if (!container)
        return r;
    meet_guest(container);
    loop_idle_add(pod->loop, &container->idle, on_adopted_idle);
    *ret = &container->container;
    return 0;
}

/* ---- its end ---- */

static void on_removed_idle(LoopIdle *idle)
{
    PodContainer *container = container_of(idle, PodContainer, idle);
    ContainerEvents events = container->container.events;
    void *userdata = container->container.userdata;

    container_free(container);
    events.removed(userdata);
}

/* Whoever runs the guest ends it, together with the pod. */
static void pod_remove(Container *base)
{
    PodContainer *container = container_of(base, PodContainer, container);

    loop_timer_cancel(&container->look);
    loop_idle_remove(&container->idle);
    if (container->file.loop)
        loop_file_remove(&container->file);
    unlink(container->current);
    unlink(container->alive);
    loop_idle_add(engine_of(container)->loop, &container->idle, on_removed_idle);
}

static void pod_leave(Container *base)
{
    container_free(container_of(base, PodContainer, container));
}

static void on_sweep_idle(LoopIdle *idle)
{
    PodEngine *pod = container_of(idle, PodEngine, sweep_idle);

    pod->sweep_done(pod->sweep_userdata, 0);
}

static void pod_sweep(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);

    pod->sweep_done = done;
    pod->sweep_userdata = userdata;
    loop_idle_add(pod->loop, &pod->sweep_idle, on_sweep_idle);
}

/* ---- whether this network namespace is closed ---- */

/* Servers that every pod of a cluster can reach, unless a policy keeps it from there: those of names, and the
 * API server. */

#define ATTEMPTS     10
#define PATIENCE_MS  500 /* for an answer, and between attempts */
#define SERVERS_MOST 4
#define REACH_TEXT   80

typedef struct Servers {
    struct addrinfo *found[SERVERS_MOST];
    size_t n;
} Servers;

static void add_server(Servers *servers, const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

    if (servers->n < SERVERS_MOST && getaddrinfo(host, port, &hints, &servers->found[servers->n]) == 0)
        servers->n++;
}

static void find_servers(Servers *servers)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    FILE *file = fopen("/etc/resolv.conf", "re");
    char line[256], address[64];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "nameserver %63s", address) == 1)
            add_server(servers, address, "53");
    if (file)
        fclose(file);
    if (host && port)
        add_server(servers, host, port);
}

static void describe(char ret[static REACH_TEXT], const struct addrinfo *server)
{
    char host[INET6_ADDRSTRLEN + 16] = "?", port[8] = "?";

    getnameinfo(server->ai_addr, server->ai_addrlen, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(ret, REACH_TEXT, "%s port %s", host, port);
}

static int begin(const struct addrinfo *server)
{
    int fd = socket(server->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, server->ai_addr, server->ai_addrlen) < 0 && errno != EINPROGRESS)
        close_fd(&fd);
    return fd;
}

static bool is_connected(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

/* Asks all of them at once. */
static bool ask(const Servers *servers, char ret[static REACH_TEXT])
{
    struct pollfd polled[SERVERS_MOST];
    size_t waiting = servers->n;
    bool answered = false;

    for (size_t i = 0; i < servers->n; i++)
        polled[i] = (struct pollfd){.fd = begin(servers->found[i]), .events = POLLOUT};
    while (!answered && waiting-- > 0 && poll(polled, servers->n, PATIENCE_MS) > 0)
        for (size_t i = 0; i < servers->n; i++) {
            if (!polled[i].revents || polled[i].fd < 0)
                continue;
            if (is_connected(polled[i].fd)) {
                describe(ret, servers->found[i]);
                answered = true;
            }
            close_fd(&polled[i].fd);
        }
    for (size_t i = 0; i < servers->n; i++)
        close_fd(&polled[i].fd);
    return answered;
}

/* Returns whether one of them answers within some seconds; *ret is its address. A policy takes effect a
 * moment after the pod begins: while one answers it is asked again. Blocks. */
static bool reach_anything(char ret[static REACH_TEXT])
{
    const struct timespec pause = {.tv_nsec = PATIENCE_MS * 1000000L};
    Servers servers = {.n = 0};
    bool answered = true;

    find_servers(&servers);
    for (unsigned i = 0; answered && i < ATTEMPTS; i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        answered = ask(&servers, ret);
    }
    for (size_t i = 0; i < servers.n; i++)
        freeaddrinfo(servers.found[i]);
    return answered;
}

/* ---- what a controller cannot do to another container ---- */

static int pod_attach_data(Container *base, int data, const AttachDone *attached, Problem *problem)
{
    return attach_refuse(problem, "it is another one of the pod");
}

static int pod_attach_packages(Container *base, const char *name, const AttachDone *attached,
                               Problem *problem)
{
    return problem_set(problem, ERR_ENGINE_ERROR,
                       "a session in a pod has the packages of its image; build an image with them");
}

static int pod_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    return -EOPNOTSUPP;
}

static int pod_time(Container *base, uint64_t *ret_nsec)
{
    return -EOPNOTSUPP;
}

static int pod_set_idle(Container *base, bool idle)
{
    return -EOPNOTSUPP;
}

static ContainerGroups pod_groups(Container *base)
{
    return (ContainerGroups){0};
}

static unsigned pod_not_enforced(const Engine *engine)
{
    return LIMIT_ON_PIDS;
}

static const char *pod_image(Engine *engine, const char *name)
{
    return name;
}

/* ---- the engine ---- */

static int check_network(const EngineConfig *config, Problem *problem)
{
    char address[REACH_TEXT];

    if (strcmp(config->network_proof, "trust") == 0 || !reach_anything(address))
        return 0;
    return problem_set(problem, ERR_ENGINE_ERROR,
                       "this pod can connect to %s, so the network of its session would not be 'none': set a "
                       "NetworkPolicy without egress that the cluster enforces, or network_proof = trust",
                       address);
}

static int pod_open(Loop *loop, const EngineConfig *config, Engine **ret, Problem *problem)
{
    PodEngine *pod;
    int r = check_network(config, problem);

    if (r < 0)
        return r;
    pod = calloc(1, sizeof(*pod));
    if (!pod)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    pod->engine.ops = &engine_pod;
    pod->loop = loop;
    pod->config = *config;
    *ret = &pod->engine;
    return 0;
}

static void pod_close(Engine *engine)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);
    int fd = *pod->ended ? open(pod->ended, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444) : -1;

    close_fd(&fd);
    loop_idle_remove(&pod->sweep_idle);
    free(pod);
}

static void pod_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                      void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;

    if (!getenv("KUBERNETES_SERVICE_HOST"))
        check_say(&check, FINDING_OK, "pod", NULL, "not in a pod, where this engine is for");
    else if (check_network(config, &problem) < 0)
        check_say(&check, FINDING_FAIL, "network", NULL, "%s", problem.text);
    else
        check_say(&check, FINDING_OK, "network", NULL,
                  "neither the cluster's DNS nor its API server answers");
}

const EngineOps engine_pod = {
    .name = "pod",
    .isolates = true,
    .peer_is_first_process = false,
    .single = true,
    .open = pod_open,
    .close = pod_close,
    .create = pod_create,
    .adopt = pod_adopt,
    .remove = pod_remove,
    .leave = pod_leave,
    .attach_data = pod_attach_data,
    .attach_packages = pod_attach_packages,
    .sweep = pod_sweep,
    .memory = pod_memory,
    .time = pod_time,
    .set_idle = pod_set_idle,
    .groups = pod_groups,
    .not_enforced = pod_not_enforced,
    .image = pod_image,
    .check = pod_check,
};
