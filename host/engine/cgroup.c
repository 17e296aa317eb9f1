#include "host/engine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "proto/base/program.h"

#define CGROUPS_NULL ((Cgroups){0})

#define FILE_LIMIT (64u << 10)

#define CPU_IDLE "cpu.idle"

/* A mounted hierarchy. */
typedef struct Hierarchy {
    char root[PATH_MAX / 2];  /* the group that is at the mount point */
    char point[PATH_MAX / 2]; /* where it is mounted */
    char options[256];        /* controllers of version 1, among others */
    bool unified;
} Hierarchy;

/* Returns whether `word` is in a list with commas. */
static bool in_list(const char *list, size_t size, const char *word)
{
    for (const char *end = list + size; list < end;) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        size_t length = (size_t)((comma ? comma : end) - list);

        if (length == strlen(word) && memcmp(list, word, length) == 0)
            return true;
        list += length + 1;
    }
    return false;
}

static bool parse_mount(const char *line, Hierarchy *ret)
{
    const char *separator = strstr(line, " - ");
    char type[16];

    if (!separator || separator > line + strcspn(line, "\n"))
        return false;
    if (sscanf(line, "%*s %*s %*s %2047s %2047s", ret->root, ret->point) != 2 ||
        sscanf(separator, " - %15s %*s %255s", type, ret->options) != 2)
        return false;
    ret->unified = strcmp(type, "cgroup2") == 0;
    return ret->unified || strcmp(type, "cgroup") == 0;
}

/* The next hierarchy in the text of mountinfo from *at on. */
static bool next_hierarchy(const char **at, Hierarchy *ret)
{
    while (**at) {
        const char *line = *at;

        *at += strcspn(line, "\n");
        *at += **at == '\n';
        if (parse_mount(line, ret))
            return true;
    }
    return false;
}

static bool find_hierarchy(const char *mountinfo, const char *controller, Hierarchy *ret)
{
    while (next_hierarchy(&mountinfo, ret))
        if (controller ? !ret->unified && in_list(ret->options, strlen(ret->options), controller)
                       : ret->unified)
            return true;
    return false;
}

static char *mounted;

static void read_mounted(void)
{
    FILE *list = fopen("/proc/self/mountinfo", "re");
    char *line _cleanup_(freep) = NULL;
    size_t size = 0, length = 0;
    FILE *kept = open_memstream(&mounted, &length);
    Hierarchy hierarchy;

    while (list && kept && getline(&line, &size, list) >= 0)
        if (parse_mount(line, &hierarchy))
            fputs(line, kept);
    if (kept)
        fclose(kept);
    if (list)
        fclose(list);
}

/* The lines of mountinfo that are about hierarchies. They are read once: every session has two mounts, so
 * that reading all for each container takes longer the more there are. */
static const char *hierarchies(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_mounted);
    return mounted ? mounted : "";
}

/* The group of the line of /proc/PID/cgroup that has the controller; NULL means version 2. */
static bool find_group(const char *cgroup, const char *controller, char *ret, size_t size)
{
    for (const char *line = cgroup; *line;) {
        size_t length = strcspn(line, "\n");
        const char *controllers = memchr(line, ':', length);
        const char *path =
            controllers ? memchr(controllers + 1, ':', length - (size_t)(controllers + 1 - line)) : NULL;

        if (path) {
            size_t named = (size_t)(path - controllers - 1);
            size_t path_length = length - (size_t)(path + 1 - line);

            if (controller ? in_list(controllers + 1, named, controller) : named == 0 && line[0] == '0') {
                if (path_length >= size)
                    return false;
                memcpy(ret, path + 1, path_length);
                ret[path_length] = '\0';
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

int cgroup_find(const char *groups, const char *mountinfo, const char *controller, Cgroup *ret)
{
    char group[PATH_MAX / 2], *directory;
    const char *below = group;
    bool unified = !find_group(groups, controller, group, sizeof(group));
    Hierarchy hierarchy;

    if (unified && !find_group(groups, NULL, group, sizeof(group)))
        return -ENOENT;
    if (!find_hierarchy(mountinfo, unified ? NULL : controller, &hierarchy))
        return -ENOENT;
    if (strcmp(hierarchy.root, "/") != 0 && strncmp(group, hierarchy.root, strlen(hierarchy.root)) == 0)
        below += strlen(hierarchy.root);
    if (asprintf(&directory, "%s%s", hierarchy.point, below) < 0)
        return -ENOMEM;
    *ret = (Cgroup){.directory = directory, .unified = unified};
    return 0;
}

static int read_groups(pid_t pid, char **ret)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    return capture_file(path, FILE_LIMIT, ret);
}

/* Finds the group of a process. 0, or a negative errno. */
static int cgroup_init(Cgroup *cgroup, pid_t pid, const char *controller)
{
    char *groups _cleanup_(freep) = NULL;
    int r = read_groups(pid, &groups);

    return r < 0 ? r : cgroup_find(groups, hierarchies(), controller, cgroup);
}

void cgroup_deinit(Cgroup *cgroup)
{
    free(cgroup->directory);
    *cgroup = (Cgroup){0};
}

bool cgroup_is_called(const Cgroup *cgroup, const char *name)
{
    const char *slash = cgroup->directory ? strrchr(cgroup->directory, '/') : NULL;

    return slash && strcmp(slash + 1, name) == 0;
}

void cgroups_init(Cgroups *cgroups, pid_t pid)
{
    char *groups _cleanup_(freep) = NULL;

    *cgroups = CGROUPS_NULL;
    if (read_groups(pid, &groups) < 0)
        return;
    cgroup_find(groups, hierarchies(), "memory", &cgroups->memory);
    cgroup_find(groups, hierarchies(), "cpu", &cgroups->cpu);
    cgroup_find(groups, hierarchies(), "cpuacct", &cgroups->cpuacct);
}

void cgroups_deinit(Cgroups *cgroups)
{
    cgroup_deinit(&cgroups->memory);
    cgroup_deinit(&cgroups->cpu);
    cgroup_deinit(&cgroups->cpuacct);
}

ContainerGroups cgroups_named(const Cgroups *cgroups)
{
    return (ContainerGroups){
        .memory = cgroups->memory.directory,
        .time = cgroups->cpuacct.directory,
        .idle = cgroups->cpu.directory,
        .memory_unified = cgroups->memory.unified,
        .time_unified = cgroups->cpuacct.unified,
    };
}

bool cgroup_has_process(const char *name, pid_t pid)
{
    char *groups _cleanup_(freep) = NULL;
    char path[64];
    size_t length = strlen(name);

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    if (capture_file(path, FILE_LIMIT, &groups) < 0)
        return false;
    for (const char *at = groups; (at = strstr(at, name)); at += length)
        if (at > groups && at[-1] == '/' && (at[length] == '\n' || at[length] == '/'))
            return true;
    return false;
}

static int path_in(char ret[static PATH_MAX], const char *directory, const char *name)
{
    return (size_t)snprintf(ret, PATH_MAX, "%s/%s", directory, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int read_group_file(const char *directory, const char *name, char **ret)
{
    char path[PATH_MAX];
    int r = path_in(path, directory, name);

    return r < 0 ? r : capture_file(path, FILE_LIMIT, ret);
}

static int read_kills(const Cgroup *memory, uint64_t *ret)
{
    char *events _cleanup_(freep) = NULL;
    const char *kills;
    int r =
        read_group_file(memory->directory, memory->unified ? "memory.events" : "memory.oom_control", &events);

    if (r < 0)
        return r;
    kills = strstr(events, "oom_kill ");
    if (!kills)
        return -EBADMSG;
    *ret = strtoull(kills + strlen("oom_kill "), NULL, 10);
    return 0;
}

static int read_usage(const Cgroup *memory, uint64_t *ret)
{
    char *usage _cleanup_(freep) = NULL;
    int r = read_group_file(memory->directory, memory->unified ? "memory.current" : "memory.usage_in_bytes",
                            &usage);

    if (r < 0)
        return r;
    return sscanf(usage, "%" SCNu64, ret) == 1 ? 0 : -EBADMSG;
}

int cgroup_read_memory(const Cgroup *memory, uint64_t *ret_bytes, uint64_t *ret_kills)
{
    uint64_t bytes = 0, kills = 0;
    int r = memory->directory ? 0 : -ENOENT;

    if (r == 0 && ret_bytes)
        r = read_usage(memory, &bytes);
    if (r == 0 && ret_kills)
        r = read_kills(memory, &kills);
    if (r < 0)
        return r;
    if (ret_bytes)
        *ret_bytes = bytes;
    if (ret_kills)
        *ret_kills = kills;
    return 0;
}

int cgroup_read_time(const Cgroup *cpuacct, uint64_t *ret_nsec)
{
    char *text _cleanup_(freep) = NULL;
    bool unified = cpuacct->unified;
    uint64_t time;
    int r = -ENOENT;

    if (cpuacct->directory)
        r = read_group_file(cpuacct->directory, unified ? "cpu.stat" : "cpuacct.usage", &text);
    if (r < 0)
        return r;
    if (sscanf(text, unified ? "usage_usec %" SCNu64 : "%" SCNu64, &time) != 1)
        return -EBADMSG;
    *ret_nsec = unified ? 1000 * time : time;
    return 0;
}

int cgroup_open_idle(const char *directory)
{
    char path[PATH_MAX];
    int r = directory ? path_in(path, directory, CPU_IDLE) : -ENOENT;

    if (r < 0)
        return r;
    r = open(path, O_WRONLY | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

int cgroup_set_idle(const Cgroup *cpu, bool idle)
{
    int fd _cleanup_(closep) = cgroup_open_idle(cpu->directory);

    if (fd < 0)
        return fd;
    return write(fd, idle ? "1" : "0", 1) < 0 ? -errno : 0;
}

static void remove_directory(const char *directory)
{
    char *members _cleanup_(freep) = NULL;

    if (rmdir(directory) == 0 || errno != EBUSY || read_group_file(directory, "cgroup.procs", &members) < 0)
        return;
    for (char *at = members, *end; *at; at = end) {
        long pid = strtol(at, &end, 10);

        if (end == at)
            break;
        if (pid > 1)
            kill((pid_t)pid, SIGKILL);
    }
    rmdir(directory);
}

void cgroup_remove(const char *path)
{
    const char *at;
    Hierarchy hierarchy;

    for (at = hierarchies(); next_hierarchy(&at, &hierarchy);) {
        char directory[PATH_MAX];

        if ((size_t)snprintf(directory, sizeof(directory), "%s%s", hierarchy.point, path) < sizeof(directory))
            remove_directory(directory);
    }
}

static bool has_unified_controller(const char *point, const char *controller)
{
    char *text _cleanup_(freep) = NULL;

    if (read_group_file(point, "cgroup.controllers", &text) < 0)
        return false;
    for (char *c = text; *c; c++)
        if (*c == ' ' || *c == '\n')
            *c = ',';
    return in_list(text, strlen(text), controller);
}

/* Version 2 has the file in every group but the root, so that there the kernel's version tells. */
static bool has_idle(const char *mountinfo)
{
    char path[PATH_MAX];
    unsigned major, minor;
    struct utsname kernel;
    Hierarchy cpu;

    if (find_hierarchy(mountinfo, "cpu", &cpu))
        return path_in(path, cpu.point, CPU_IDLE) == 0 && access(path, F_OK) == 0;
    return uname(&kernel) == 0 && sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 15));
}

void cgroup_support(CgroupSupport *ret)
{
    const char *mountinfo = hierarchies();
    Hierarchy hierarchy;
    CgroupSupport support = {0};
    char swap[PATH_MAX];
    bool idle = has_idle(mountinfo);

    if (find_hierarchy(mountinfo, "memory", &hierarchy)) {
        snprintf(swap, sizeof(swap), "%s/memory.memsw.limit_in_bytes", hierarchy.point);
        support = (CgroupSupport){
            .version = 1,
            .memory = true,
            .pids = find_hierarchy(mountinfo, "pids", &hierarchy),
            .cpu = find_hierarchy(mountinfo, "cpu", &hierarchy),
            .swap = access(swap, F_OK) == 0,
            .idle = idle,
        };
    } else if (find_hierarchy(mountinfo, NULL, &hierarchy)) {
        support = (CgroupSupport){
            .version = 2,
            .memory = has_unified_controller(hierarchy.point, "memory"),
            .pids = has_unified_controller(hierarchy.point, "pids"),
            .cpu = has_unified_controller(hierarchy.point, "cpu"),
            .swap = true,
            .idle = idle,
        };
    }
    *ret = support;
}

/* ---- the cost of moving processes ---- */

#define MEMBERS_LIMIT (256u << 10)

static atomic_flag moving = ATOMIC_FLAG_INIT;

static bool is_member(const char *members)
{
    long own = getpid();

    for (char *end; *members; members = end) {
        long pid = strtol(members, &end, 10);

        if (end == members)
            break;
        if (pid == own)
            return true;
    }
    return false;
}

/* From the group it is in into that group. What the file says decides, not the path. */
static void move_nowhere(void)
{
    Cgroup group _cleanup_(cgroup_deinit) = {0};
    char *members _cleanup_(freep) = NULL, path[PATH_MAX];
    int fd _cleanup_(closep) = -1;

    if (cgroup_init(&group, getpid(), "memory") < 0)
        return;
    snprintf(path, sizeof(path), "%s/cgroup.procs", group.directory);
    if (capture_file(path, MEMBERS_LIMIT, &members) < 0 || !is_member(members))
        return;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "0", 1) < 0)
        return;
}

static void *run(void *userdata)
{
    move_nowhere();
    atomic_flag_clear(&moving);
    return NULL;
}

void cgroup_move_expected(void)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;

    if (atomic_flag_test_and_set(&moving))
        return;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &detached, run, NULL) != 0)
        atomic_flag_clear(&moving);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
}
