/* Drives one engine as the controller does, and prints what it sees, one "key value" a line.
 *
 *   engine_probe check|choose|sweep|life|leave|measure|forget|hand-on|adopt|burst ENGINE name=value...
 *
 * With expect=gone a life waits for the guest to end by itself.
 *
 * life:  sweep, create, started, report of the guest, memory, gone or remove, removed, sweep
 * With attach=DIRECTORY the container gets it as /data once it has started and reported, and once more when
 * the guest has looked at it. data= gives it none from the start.
 *
 * leave: the same until the report, and then ends as if it had crashed
 * measure: as leave, but says before what it has used and where that is counted, sets it idle, and attaches
 * the packages=NAME,NAME... one after the other forget: the same until the report; then the engine leaves the
 * container and is closed hand-on: the same with what another one left, while it is being adopted adopt:
 * takes over what another one left: adopt, sweep, started, report, memory, gone or remove, removed, sweep
 * burst: as many containers as count= says, every third removed at once, every third when it has started, the
 * others when all are settled */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "host/engine/engine.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define COUNT_MAX 64
#define PATIENCE  90.0

typedef struct Probe {
    Loop *loop;
    Engine *engine;
    EngineConfig config;
    ContainerSpec spec;
    const char *mode, *attach, *data, *packages;
    unsigned count, live, settled;
    Container *containers[COUNT_MAX];
    LoopFile reports;
    LoopTimer patience;
    bool sweeping_last, started, reported, looked;
} Probe;

static void say(const char *key, const char *format, ...) _printf_(2, 3);
static void say(const char *key, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("%s ", key);
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
}

static void on_swept(void *userdata, unsigned removed)
{
    Probe *probe = userdata;

    say("swept", "%u", removed);
    if (probe->sweeping_last)
        loop_stop(probe->loop, 0);
}

static void sweep_last(Probe *probe)
{
    probe->sweeping_last = true;
    probe->engine->ops->sweep(probe->engine, on_swept, probe);
}

static unsigned index_of(const Probe *probe, const Container *container)
{
    unsigned i = 0;

    while (i < probe->count && probe->containers[i] != container)
        i++;
    return i;
}

static void remove_container(Probe *probe, unsigned i)
{
    Container *container = probe->containers[i];

    probe->containers[i] = NULL;
    if (container)
        probe->engine->ops->remove(container);
}

static void settle(Probe *probe, Container *container)
{
    bool burst = strcmp(probe->mode, "burst") == 0;

    probe->settled++;
    if (burst && index_of(probe, container) % 3 == 1)
        remove_container(probe, index_of(probe, container));
    if (burst && probe->settled == probe->count - (probe->count + 2) / 3)
        for (unsigned i = 0; i < probe->count; i++)
            remove_container(probe, i);
}

static unsigned count_entries(const char *path)
{
    DIR *directory = opendir(path);
    unsigned count = 0;

    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count;
}

static int attach(Probe *probe, Container *container)
{
    unsigned descriptors = count_entries("/proc/self/fd"), left;
    Problem problem = PROBLEM_NULL;
    int data = open(probe->attach, O_RDONLY | O_CLOEXEC);
    int r = probe->engine->ops->attach_data(container, data, NULL, &problem);

    close(data);
    left = count_entries("/proc/self/fd") - descriptors;
    say("attached", "%s", r < 0 ? strerrorname_np(-r) : "ok");
    if (r < 0)
        say("problem", "%s %s", error_name(problem.code), problem.text);
    if (left != 0 || waitpid(-1, NULL, WNOHANG) > 0)
        say("error", "%u descriptors, or a process, are left of it", left);
    return r;
}

/* True when there is nothing to wait for. */
static bool attach_or_attach_again(Probe *probe)
{
    bool again = probe->looked;

    if (!probe->attach)
        return true;
    return attach(probe, probe->containers[0]) < 0 || again;
}

static void measure(Probe *probe, Container *container)
{
    const EngineOps *ops = probe->engine->ops;
    ContainerGroups groups = ops->groups(container);
    uint64_t nsec = 0;
    int r = ops->time(container, &nsec);

    say("time", "%s %llu", r < 0 ? strerrorname_np(-r) : "ok", (unsigned long long)nsec);
    r = ops->set_idle(container, true);
    say("idle", "%s", r < 0 ? strerrorname_np(-r) : "ok");
    say("group", "memory %s %d", groups.memory ? groups.memory : "-", groups.memory_unified);
    say("group", "time %s %d", groups.time ? groups.time : "-", groups.time_unified);
    say("group", "idle %s", groups.idle ? groups.idle : "-");
}

static void attach_packages(Probe *probe, Container *container)
{
    char names[256];

    snprintf(names, sizeof(names), "%s", probe->packages);
    for (char *rest = names, *name; (name = strsep(&rest, ","));) {
        Problem problem = PROBLEM_NULL;
        int r = probe->engine->ops->attach_packages(container, name, NULL, &problem);

        say("packages", "%s %s", name, r < 0 ? problem.text : "ok");
    }
}

static void forget(Probe *probe)
{
    probe->engine->ops->leave(probe->containers[0]);
    probe->containers[0] = NULL;
    probe->live--;
}

/* Goes on when the guest has reported and the engine has said that it runs, in whichever order. */
static void go_on(Probe *probe)
{
    uint64_t bytes, kills;

    if (!probe->started || !probe->reported || strcmp(probe->mode, "burst") == 0 || !probe->containers[0])
        return;
    if (probe->engine->ops->memory(probe->containers[0], &bytes, &kills) == 0)
        say("memory", "%llu %llu", (unsigned long long)bytes, (unsigned long long)kills);
    if (strcmp(probe->mode, "measure") == 0)
        measure(probe, probe->containers[0]);
    if (probe->packages)
        attach_packages(probe, probe->containers[0]);
    if (strcmp(probe->mode, "leave") == 0 || strcmp(probe->mode, "measure") == 0)
        _exit(0);
    if (strcmp(probe->mode, "forget") == 0) {
        forget(probe);
        loop_stop(probe->loop, 0);
        return;
    }
    if (strcmp(probe->spec.session, "gone") != 0 && attach_or_attach_again(probe))
        remove_container(probe, 0);
}

static void on_started(Container *container, void *userdata, pid_t first_process)
{
    Probe *probe = userdata;

    say("started", "%d", (int)first_process);
    probe->started = true;
    settle(probe, container);
    go_on(probe);
}

static void on_failed(Container *container, void *userdata, const Problem *problem)
{
    Probe *probe = userdata;

    say("failed", "%s %s", error_name(problem->code), problem->text);
    if (strcmp(probe->mode, "burst") == 0)
        settle(probe, container);
    else
        remove_container(probe, 0);
}

static void on_gone(Container *container, void *userdata, const char *why)
{
    Probe *probe = userdata;

    say("gone", "%s", why);
    if (probe->attach)
        attach(probe, container);
    remove_container(probe, 0);
}

static void on_removed(void *userdata)
{
    Probe *probe = userdata;

    say("removed", "%u", --probe->live);
    if (probe->live == 0)
        sweep_last(probe);
}

static void on_report(Probe *probe, const char *name)
{
    if (strcmp(name, "report.txt") == 0)
        probe->reported = true;
    else if (strcmp(name, "data.txt") == 0)
        probe->looked = true;
    else
        return;
    go_on(probe);
}

static void on_session_changed(LoopFile *file, uint32_t events)
{
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(file->fd, buffer, sizeof(buffer));

    for (char *at = buffer; at < buffer + n;) {
        struct inotify_event *event = (struct inotify_event *)at;

        at += sizeof(*event) + event->len;
        if (event->len > 0)
            on_report(container_of(file, Probe, reports), event->name);
    }
}

static void on_patience_due(LoopTimer *timer)
{
    say("error", "nothing more happened");
    loop_stop(container_of(timer, Probe, patience)->loop, 1);
}

static const ContainerEvents events = {on_started, on_failed, on_gone, on_removed};

static void create(Probe *probe, unsigned i)
{
    Problem problem = PROBLEM_NULL;
    ContainerSpec spec = probe->spec;
    char name[64];

    snprintf(name, sizeof(name), "limpet-%s-%u", spec.owner, i);
    spec.name = name;
    spec.data = probe->data && *probe->data ? open(probe->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (probe->engine->ops->create(probe->engine, &spec, &events, probe, &probe->containers[i], &problem) <
        0) {
        closep(&spec.data);
        say("refused", "%s %s", error_name(problem.code), problem.text);
        return;
    }
    closep(&spec.data);
    probe->live++;
    say("created", "%s", name);
}

/* The container that another probe made. */
static bool adopt(Probe *probe)
{
    Problem problem = PROBLEM_NULL;
    ContainerSpec spec = probe->spec;
    char name[64], report[PATH_MAX];

    snprintf(name, sizeof(name), "limpet-%s-0", spec.owner);
    snprintf(report, sizeof(report), "%s/report.txt", spec.session_dir);
    spec.name = name;
    probe->reported = access(report, F_OK) == 0;
    if (probe->engine->ops->adopt(probe->engine, &spec, &events, probe, &probe->containers[0], &problem) <
        0) {
        say("refused", "%s %s", error_name(problem.code), problem.text);
        return false;
    }
    probe->live++;
    say("adopting", "%s", name);
    return true;
}

static void print_finding(void *userdata, const EngineFinding *finding)
{
    static const char *const levels[] = {"ok", "warn", "fail"};

    printf("finding %s %s: %s%s%s\n", levels[finding->level], finding->topic, finding->text,
           finding->advice ? " -> " : "", finding->advice ? finding->advice : "");
}

static int set(Probe *probe, const char *argument)
{
    const struct {
        const char *name;
        const char **text;
    } texts[] = {{"state", &probe->config.state_dir},
                 {"runtime", &probe->config.runtime_dir},
                 {"oci", &probe->config.oci_runtime},
                 {"docker", &probe->config.docker_socket},
                 {"default", &probe->config.image},
                 {"guest", &probe->config.guest_path},
                 {"image", &probe->spec.image},
                 {"network", &probe->spec.network},
                 {"session", &probe->spec.session_dir},
                 {"scratch", &probe->spec.scratch_dir},
                 {"data", &probe->data},
                 {"link", &probe->spec.link_dir},
                 {"attach", &probe->attach},
                 {"packages", &probe->packages},
                 {"expect", &probe->spec.session}};
    const char *value = strchr(argument, '=');
    size_t length = value ? (size_t)(value - argument) : 0;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (strlen(texts[i].name) == length && strncmp(texts[i].name, argument, length) == 0) {
            *texts[i].text = value + 1;
            return 0;
        }
    if (strncmp(argument, "memory=", 7) == 0)
        probe->spec.memory = strtoull(argument + 7, NULL, 10);
    else if (strncmp(argument, "count=", 6) == 0)
        probe->count = (unsigned)MIN(strtoul(argument + 6, NULL, 10), COUNT_MAX);
    else
        return -EINVAL;
    return 0;
}

/* As the controller's own: on one processor, at a raised priority. Containers must not inherit either. */
static void raise_priority(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof(one), &one);
    setpriority(PRIO_PROCESS, 0, -5);
}

static int drive(Probe *probe)
{
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), r;

    inotify_add_watch(watch, probe->spec.session_dir, IN_MOVED_TO);
    if (loop_file_add(probe->loop, &probe->reports, watch, EPOLLIN, on_session_changed) < 0 ||
        loop_timer_set(probe->loop, &probe->patience, clock_now() + clock_from_seconds(PATIENCE),
                       on_patience_due) < 0)
        return 1;
    if (strcmp(probe->mode, "adopt") == 0 && adopt(probe))
        probe->engine->ops->sweep(probe->engine, on_swept, probe); /* is to spare it */
    for (unsigned i = 0; i < probe->count && strcmp(probe->mode, "adopt") != 0; i++) {
        create(probe, i);
        if (strcmp(probe->mode, "burst") == 0 && i % 3 == 0)
            remove_container(probe, i);
    }
    if (probe->live == 0)
        sweep_last(probe);
    r = loop_run(probe->loop);
    loop_timer_cancel(&probe->patience);
    loop_file_remove(&probe->reports);
    close(watch);
    return r;
}

static int use_engine(Probe *probe, const EngineOps *ops)
{
    Problem problem = PROBLEM_NULL;
    int r = ops->open(probe->loop, &probe->config, &probe->engine, &problem);

    if (r < 0) {
        say("refused", "%s %s", error_name(problem.code), problem.text);
        return 0;
    }
    say("default_image", "%s", ops->image(probe->engine, ""));
    if (strcmp(probe->mode, "sweep") == 0) {
        sweep_last(probe);
        r = loop_run(probe->loop);
    } else if (strcmp(probe->mode, "hand-on") == 0) {
        if (adopt(probe))
            forget(probe);
        r = 0;
    } else {
        r = drive(probe);
    }
    ops->close(probe->engine);
    return r;
}

int main(int argc, char **argv)
{
    static Probe probe = {
        .config = {.owner = "probe",
                   .state_dir = "",
                   .runtime_dir = "",
                   .oci_runtime = "runc",
                   .userns = "auto",
                   .image = "",
                   .docker_socket = "/nonexistent/docker.sock",
                   .guest_path = ""},
        .spec = {.owner = "probe",
                 .work = true,
                 .session = "stay",
                 .image = "",
                 .memory = 512u << 20,
                 .cpus = 1.5,
                 .pids = 64,
                 .network = "none"},
        .count = 1,
    };
    const char *owner = getenv("PROBE_OWNER");
    char images[PATH_MAX];

    if (owner)
        probe.config.owner = probe.spec.owner = owner;

    Problem problem = PROBLEM_NULL;
    const EngineOps *ops;
    int r;

    if (argc < 3)
        return 2;
    probe.mode = argv[1];
    for (int i = 3; i < argc; i++)
        if (set(&probe, argv[i]) < 0)
            return 2;
    snprintf(images, sizeof(images), "%s/images", probe.config.state_dir);
    probe.config.images = images;
    log_setup("engine_probe", LOG_DEBUG);
    if (strcmp(probe.mode, "choose") == 0) {
        ops = engine_choose(&probe.config, &problem);
        say("chosen", "%s", ops ? ops->name : problem.text);
        return 0;
    }
    ops = engine_find(argv[2]);
    if (!ops)
        return 2;
    if (strcmp(probe.mode, "check") == 0) {
        ops->check(&probe.config, print_finding, NULL);
        return 0;
    }
    raise_priority();
    if (loop_new(&probe.loop) < 0)
        return 1;
    r = use_engine(&probe, ops);
    loop_free(probe.loop);
    return r;
}
