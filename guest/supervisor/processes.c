#include "guest/supervisor/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "proto/base/clock.h"

typedef struct Process {
    pid_t pid, parent;
    bool descendant; /* of the calling process */
} Process;

typedef struct ProcessTable {
    Process *items;
    size_t n, capacity;
} ProcessTable;

static void table_deinit(ProcessTable *table)
{
    free(table->items);
}

int processes_reap(ProcessesReaped reaped, void *context)
{
    for (;;) {
        struct rusage usage;
        int status;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);

        if (pid == 0)
            return 0;
        if (pid > 0)
            reaped(context, pid, status, &usage);
        else if (errno != EINTR)
            return -errno;
    }
}

/* Reads the parent from /proc/PID/stat; the name before it may hold any character but ends at the
 * last parenthesis. */
static int process_read(Process *ret, pid_t pid)
{
    char path[64], text[512];
    int parent;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;

    ssize_t n = read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return -ESRCH;
    text[n] = '\0';

    const char *name_end = strrchr(text, ')');
    if (!name_end || sscanf(name_end + 1, " %*c %d", &parent) != 1)
        return -EBADMSG;
    *ret = (Process){.pid = pid, .parent = parent};
    return 0;
}

static int table_add(ProcessTable *table, const Process *process)
{
    if (table->n == table->capacity) {
        size_t capacity = MAX(table->capacity * 2, 256u);
        Process *items = reallocarray(table->items, capacity, sizeof(*items));

        if (!items)
            return -ENOMEM;
        table->items = items;
        table->capacity = capacity;
    }
    table->items[table->n++] = *process;
    return 0;
}

static int compare_pids(const void *a, const void *b)
{
    pid_t left = ((const Process *)a)->pid, right = ((const Process *)b)->pid;

    return (left > right) - (left < right);
}

static void closedirp(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

static int table_read(ProcessTable *table)
{
    _cleanup_(closedirp) DIR *directory = opendir("/proc");
    struct dirent *entry;

    if (!directory)
        return -errno;
    while ((entry = readdir(directory))) {
        Process process;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid <= 0 || process_read(&process, pid) < 0)
            continue; /* not a process, or one that has just gone */
        if (table_add(table, &process) < 0)
            return -ENOMEM;
    }
    if (table->n > 0)
        qsort(table->items, table->n, sizeof(Process), compare_pids);
    return 0;
}

static Process *table_find(const ProcessTable *table, pid_t pid)
{
    return bsearch(&(Process){.pid = pid}, table->items, table->n, sizeof(Process), compare_pids);
}

static bool table_reaches(const ProcessTable *table, const Process *process, pid_t ancestor)
{
    /* The table is no snapshot of one moment: pids used again could make a circle. */
    for (size_t steps = 0; steps <= table->n && process; steps++) {
        if (process->descendant || process->parent == ancestor)
            return true;
        process = table_find(table, process->parent);
    }
    return false;
}

static void kill_descendants_by_walk(void)
{
    _cleanup_(table_deinit) ProcessTable table = {0};
    pid_t self = getpid();

    if (table_read(&table) < 0)
        return;
    for (size_t i = 0; i < table.n; i++) {
        Process *process = &table.items[i];

        process->descendant = table_reaches(&table, process, self);
        if (process->descendant)
            kill(process->pid, SIGKILL);
    }
}

static void kill_descendants(void)
{
    /* One call that no fork can slip past; only process 1 of a namespace may use it, it means everyone. */
    if (getpid() == 1)
        kill(-1, SIGKILL);
    else
        kill_descendants_by_walk();
}

int processes_end_all(uint64_t limit, ProcessesReaped reaped, void *context)
{
    uint64_t end = clock_now() + limit;
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (processes_reap(reaped, context) != -ECHILD) {
        uint64_t now = clock_now();

        if (now >= end)
            return -ETIMEDOUT;
        kill_descendants();

        struct timespec left = {.tv_sec = (time_t)((end - now) / NSEC_PER_SEC),
                                .tv_nsec = (long)((end - now) % NSEC_PER_SEC)};
        sigtimedwait(&child, NULL, &left);
    }
    return 0;
}

bool processes_is_descendant(pid_t pid)
{
    pid_t self = getpid();
    Process process = {.parent = pid};

    while (process.parent > 1 && process.parent != self)
        if (process_read(&process, process.parent) < 0)
            return false;
    return process.parent == self && pid != self;
}
