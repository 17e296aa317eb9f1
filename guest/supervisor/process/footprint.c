#include "guest/supervisor/process/footprint.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "guest/supervisor/process/spawn.h"
#include "proto/base/proc.h"

/* The bytes of a line such as `VmHWM:     1234 kB`. */
static int find_bytes(const char *text, const char *label, uint64_t *ret)
{
    const char *at = strstr(text, label);
    uint64_t kibibytes;

    if (!at || sscanf(at + strlen(label), " %" SCNu64, &kibibytes) != 1)
        return -EBADMSG;
    *ret = kibibytes * 1024;
    return 0;
}

void footprint_used(pid_t pid, double *ret_cpu, uint64_t *ret_peak_memory)
{
    char text[4096];
    struct timespec used;
    clockid_t id;

    if (clock_getcpuclockid(pid, &id) == 0 && clock_gettime(id, &used) == 0)
        *ret_cpu = (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
    if (proc_read(pid, "status", text, sizeof(text)) > 0)
        find_bytes(text, "\nVmHWM:", ret_peak_memory);
}

#define ROLLUP      "smaps_rollup"
#define ROLLUP_SIZE 4096u

static int add(Footprint *ret, const char *text)
{
    uint64_t private = 0, share = 0, all = 0;
    int r = find_bytes(text, "\nPrivate_Dirty:", &private);

    if (r == 0)
        r = find_bytes(text, "\nPss_Anon:", &share);
    if (r == 0)
        r = find_bytes(text, "\nAnonymous:", &all);
    if (r < 0)
        return r;
    ret->private += private;
    ret->share += share;
    ret->all += all;
    return 0;
}

/* The kernel shows a process's maps to its own user. */
int footprint_add(Footprint *ret, pid_t pid, uid_t uid)
{
    char text[ROLLUP_SIZE];
    ssize_t n = act_as(uid);

    if (n == 0)
        n = proc_read(pid, ROLLUP, text, sizeof(text));
    act_as_self();
    return n < 0 ? (int)n : add(ret, text);
}

int footprint_add_opened(Footprint *ret, int fd)
{
    char text[ROLLUP_SIZE];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

    text[MAX(n, 0)] = '\0';
    return n < 0 ? -errno : add(ret, text);
}

bool footprint_is_opened(int fd, pid_t pid)
{
    char link[64], is[PATH_MAX], wanted[64];
    struct statfs system;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    snprintf(wanted, sizeof(wanted), "/proc/%d/" ROLLUP, (int)pid);

    ssize_t n = readlink(link, is, sizeof(is) - 1);
    is[MAX(n, 0)] = '\0';
    return fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC && strcmp(is, wanted) == 0;
}
