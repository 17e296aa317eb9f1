#include "proto/base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* "/proc/PID/name" */
typedef char ProcPath[64 + NAME_MAX];

static void set_path(ProcPath ret, pid_t pid, const char *name)
{
    char number[16] = "self";

    if (pid != 0)
        snprintf(number, sizeof(number), "%d", (int)pid);
    snprintf(ret, sizeof(ProcPath), "/proc/%s/%s", number, name);
}

ssize_t proc_read(pid_t pid, const char *name, char *to, size_t size)
{
    ProcPath path;

    set_path(path, pid, name);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;

    ssize_t n = read(fd, to, size - 1);
    if (n < 0)
        return -errno;
    to[n] = '\0';
    return n;
}

/* ---- one process ---- */

#define FLAG_EXITING  0x4u /* PF_EXITING and PF_SIGNALED of the kernel */
#define FLAG_SIGNALED 0x400u
#define SKIP_21       "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"

/* The fields of /proc/PID/stat from the third on. */
static int parse_stat(ProcStat *ret, const char *text)
{
    unsigned long pending = 0;
    unsigned flags = 0;
    int parent, session;
    char state;
    int n =
        sscanf(text, " %c %d %*d %d %*d %*d %u " SKIP_21 " %lu", &state, &parent, &session, &flags, &pending);

    if (n < 3)
        return -EBADMSG;
    *ret = (ProcStat){
        .parent = parent, .session = session, .awake = state == 'R' || state == 'S', .stopped = state == 'T'};
    ret->dying = state == 'Z' || state == 'X' || flags & (FLAG_EXITING | FLAG_SIGNALED) ||
                 pending & (1ul << (SIGKILL - 1));
    return 0;
}

/* The name in the file may hold any character, but ends at the last parenthesis. */
int proc_stat(ProcStat *ret, pid_t pid)
{
    char text[1024];

    if (proc_read(pid, "stat", text, sizeof(text)) <= 0)
        return -ESRCH;

    const char *name_end = strrchr(text, ')');
    return name_end ? parse_stat(ret, name_end + 1) : -EBADMSG;
}

static const char *find(const char *status, const char *field)
{
    const char *at = strstr(status, field);

    return at ? at + strlen(field) : "";
}

/* A signal that kills the whole process stays among those it shares until it is gone, unlike in what `stat`
 * tells: there the thread has none any more shortly before its flags say so. Line ends in its name are
 * escaped. */
bool proc_is_alive(pid_t pid)
{
    char status[8192], state;
    uint64_t waiting;

    return proc_read(pid, "status", status, sizeof(status)) > 0 &&
           sscanf(find(status, "\nState:"), " %c", &state) == 1 && state != 'Z' && state != 'X' &&
           sscanf(find(status, "\nShdPnd:"), "%" SCNx64, &waiting) == 1 &&
           !(waiting & UINT64_C(1) << (SIGKILL - 1));
}

int proc_memory(ProcMemory *ret, pid_t pid)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char text[128], *at;
    ssize_t n = proc_read(pid, "statm", text, sizeof(text));

    if (n < 0)
        return (int)n;
    strtoull(text, &at, 10); /* all that is mapped */
    ret->resident = strtoull(at, &at, 10) * page;
    ret->shared = strtoull(at, NULL, 10) * page;
    return 0;
}

/* ---- several ---- */

static void closedirp(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

int proc_each(int (*found)(void *userdata, pid_t pid), void *userdata)
{
    _cleanup_(closedirp) DIR *directory = opendir("/proc");
    struct dirent *entry;
    int r = 0;

    if (!directory)
        return -errno;
    while (r >= 0 && (entry = readdir(directory))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 0)
            r = found(userdata, pid);
    }
    return MIN(r, 0);
}

/* Calls `found` for the children of one thread. */
static int each_in(const char *path, int (*found)(void *userdata, pid_t child), void *userdata)
{
    FILE *file = fopen(path, "re");
    int pid, r = 0;

    while (file && r >= 0 && fscanf(file, "%d", &pid) == 1)
        r = found(userdata, pid);
    if (file)
        fclose(file);
    return MIN(r, 0);
}

int proc_each_child(pid_t pid, int (*found)(void *userdata, pid_t child), void *userdata)
{
    ProcPath path;
    struct dirent *thread;
    int r = 0;

    set_path(path, pid, "task");
    _cleanup_(closedirp) DIR *threads = opendir(path);
    if (!threads)
        return -errno;
    while (r >= 0 && (thread = readdir(threads))) {
        char name[sizeof("task//children") + NAME_MAX];

        if (thread->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "task/%s/children", thread->d_name);
        set_path(path, pid, name);
        r = each_in(path, found, userdata);
    }
    return r;
}
