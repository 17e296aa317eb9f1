#include "guest/supervisor/process/footprint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "guest/supervisor/process/act.h"
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

/* The kernel shows a process's maps to its own user. */
static int read_rollup(pid_t pid, uid_t uid, char *to, size_t size)
{
    ssize_t n = act_as(uid);

    if (n == 0)
        n = proc_read(pid, "smaps_rollup", to, size);
    act_as_self();
    return (int)MIN(n, 0);
}

int footprint_add(Footprint *ret, pid_t pid, uid_t uid)
{
    char text[4096];
    uint64_t private = 0, share = 0, all = 0;
    int r = read_rollup(pid, uid, text, sizeof(text));

    if (r == 0)
        r = find_bytes(text, "\nPrivate_Dirty:", &private);
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
