#include "host/engine/view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/engine/profile.h"
#include "proto/base/clock.h"
#include "proto/base/program.h"

#define CPUINFO_MAX (16u << 20)
#define PERIOD      100000 /* microseconds */

/* The last lies in the one before it, where an engine mounts something there by itself. */
const ViewPart view_parts[VIEW_PARTS] = {
    {"hosts", "/etc/hosts"},
    {"meminfo", "/proc/meminfo"},
    {"cpuinfo", "/proc/cpuinfo"},
    {"stat", "/proc/stat"},
    {"sys", "/sys"},
    {"sys/fs/cgroup", "/sys/fs/cgroup"},
};

/* Each after the one it is in. */
static const char *const directories[] = {
    "sys",    "sys/devices",   "sys/devices/system",   "sys/devices/system/cpu",
    "sys/fs", "sys/fs/cgroup", "sys/fs/cgroup/memory", "sys/fs/cgroup/cpu",
};

static const char *const files[] = {
    "hosts",
    "meminfo",
    "cpuinfo",
    "stat",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/possible",
    "sys/devices/system/cpu/present",
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/memory.swap.max",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/pids.max",
    "sys/fs/cgroup/memory/memory.limit_in_bytes",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us",
};

/* Returns the processors that the container may use, at most those of the machine. */
static unsigned processors(const ContainerSpec *spec)
{
    long machine = sysconf(_SC_NPROCESSORS_ONLN);

    return machine > 0 ? MIN(profile_threads(spec->cpus), (unsigned)machine) : profile_threads(spec->cpus);
}

/* ---- what is in them ---- */

/* Nothing is used: what a program reads as free or available is what the container began with. */
static void write_memory(FILE *out, const ContainerSpec *spec)
{
    static const char *const nothing[] = {"Buffers",   "Cached",   "SwapCached", "Active", "Inactive",
                                          "SwapTotal", "SwapFree", "Shmem",      "Slab",   "SReclaimable"};
    uint64_t size = spec->memory >> 10;

    fprintf(out, "MemTotal: %14" PRIu64 " kB\nMemFree: %15" PRIu64 " kB\nMemAvailable: %10" PRIu64 " kB\n",
            size, size, size);
    for (size_t i = 0; i < ARRAY_SIZE(nothing); i++)
        fprintf(out, "%s: %*u kB\n", nothing[i], (int)(22 - strlen(nothing[i])), 0);
}

/* The machine's first ones: paragraphs of its own file. */
static void write_processors(FILE *out, const ContainerSpec *spec)
{
    char *text _cleanup_(freep) = NULL;
    const char *end;

    if (capture_file("/proc/cpuinfo", CPUINFO_MAX, &text) < 0)
        return;
    end = text;
    for (unsigned i = 0; i < processors(spec); i++) {
        const char *next = strstr(end, "\n\n");

        end = next ? next + 2 : end + strlen(end);
    }
    fwrite(text, 1, (size_t)(end - text), out);
}

/* Times of the machine's processors are none of the container's business. */
static void write_times(FILE *out, const ContainerSpec *spec)
{
    struct timespec up = {0};

    clock_gettime(CLOCK_BOOTTIME, &up);
    fprintf(out, "cpu  0 0 0 0 0 0 0 0 0 0\n");
    for (unsigned i = 0; i < processors(spec); i++)
        fprintf(out, "cpu%u 0 0 0 0 0 0 0 0 0 0\n", i);
    fprintf(out, "intr 0\nctxt 0\nbtime %lld\nprocesses 0\nprocs_running 1\nprocs_blocked 0\n",
            (long long)(clock_unix() - clock_seconds(up)));
}

static void write_range(FILE *out, const ContainerSpec *spec)
{
    unsigned n = processors(spec);

    if (n > 1)
        fprintf(out, "0-%u\n", n - 1);
    else
        fprintf(out, "0\n");
}

static void write_one(FILE *out, const char *file, const ContainerSpec *spec)
{
    const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    long long quota = (long long)(spec->cpus * PERIOD);

    if (strcmp(name, "hosts") == 0)
        fprintf(out, "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    else if (strcmp(name, "meminfo") == 0)
        write_memory(out, spec);
    else if (strcmp(name, "cpuinfo") == 0)
        write_processors(out, spec);
    else if (strcmp(name, "stat") == 0)
        write_times(out, spec);
    else if (strcmp(name, "memory.max") == 0 || strcmp(name, "memory.limit_in_bytes") == 0)
        fprintf(out, "%" PRIu64 "\n", spec->memory);
    else if (strcmp(name, "memory.swap.max") == 0)
        fprintf(out, "0\n");
    else if (strcmp(name, "cpu.max") == 0)
        fprintf(out, "%lld %d\n", quota, PERIOD);
    else if (strcmp(name, "cpu.cfs_quota_us") == 0)
        fprintf(out, "%lld\n", quota);
    else if (strcmp(name, "cpu.cfs_period_us") == 0)
        fprintf(out, "%d\n", PERIOD);
    else if (strcmp(name, "pids.max") == 0)
        fprintf(out, "%u\n", spec->pids);
    else
        write_range(out, spec);
}

/* ---- where they are ---- */

static int path_of(char ret[static PATH_MAX], const char *runtime_dir, const char *name)
{
    return snprintf(ret, PATH_MAX, "%s/views/%s", runtime_dir, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int make_file(int view, const char *file, const ContainerSpec *spec)
{
    int fd = openat(view, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    int r;

    if (!out) {
        r = -errno;
        closep(&fd);
        return r;
    }
    write_one(out, file, spec);
    r = ferror(out) ? -EIO : 0;
    return fclose(out) != 0 ? -errno : r;
}

static int fill(int view, const ContainerSpec *spec)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(directories); i++)
        r = mkdirat(view, directories[i], 0755) < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
        r = make_file(view, files[i], spec);
    return r;
}

int view_make(char ret[static PATH_MAX], const char *runtime_dir, const ContainerSpec *spec)
{
    int view _cleanup_(closep) = -1;
    int r = path_of(ret, runtime_dir, "");

    if (r == 0 && mkdir(ret, 0700) < 0 && errno != EEXIST)
        r = -errno;
    if (r == 0)
        r = path_of(ret, runtime_dir, spec->name);
    if (r == 0 && mkdir(ret, 0755) < 0)
        r = -errno;
    if (r < 0)
        return r;
    view = open(ret, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = view < 0 ? -errno : fill(view, spec);
    if (r < 0)
        view_remove(runtime_dir, spec->name);
    return r;
}

void view_remove(const char *runtime_dir, const char *name)
{
    char path[PATH_MAX];
    int view _cleanup_(closep) = -1;

    if (path_of(path, runtime_dir, name) < 0)
        return;
    view = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (view < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        unlinkat(view, files[i], 0);
    for (size_t i = ARRAY_SIZE(directories); i > 0; i--)
        unlinkat(view, directories[i - 1], AT_REMOVEDIR);
    rmdir(path);
}
