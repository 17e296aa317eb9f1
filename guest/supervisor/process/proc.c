#include "guest/supervisor/process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

ssize_t proc_read(pid_t pid, const char *name, char *to, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;

    ssize_t n = read(fd, to, size - 1);
    if (n < 0)
        return -errno;
    to[n] = '\0';
    return n;
}

void table_deinit(ProcessTable *table)
{
    free(table->items);
    *table = (ProcessTable){0};
}

#define FLAG_EXITING  0x4u /* PF_EXITING and PF_SIGNALED of the kernel */
#define FLAG_SIGNALED 0x400u
#define SKIP_21       "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"

/* The fields of /proc/PID/stat from the third on. */
static int parse_stat(Process *ret, pid_t pid, const char *text)
{
    unsigned long pending = 0;
    unsigned flags = 0;
    int parent, session;
    char state;
    int n =
        sscanf(text, " %c %d %*d %d %*d %*d %u " SKIP_21 " %lu", &state, &parent, &session, &flags, &pending);

    if (n < 3)
        return -EBADMSG;
    *ret = (Process){.pid = pid, .parent = parent, .session = session};
    ret->dying = state == 'Z' || state == 'X' || flags & (FLAG_EXITING | FLAG_SIGNALED) ||
                 pending & (1ul << (SIGKILL - 1));
    return 0;
}

/* The name in /proc/PID/stat may hold any character, but ends at the last parenthesis. */
int process_read(Process *ret, pid_t pid)
{
    char text[1024];

    if (proc_read(pid, "stat", text, sizeof(text)) <= 0)
        return -ESRCH;

    const char *name_end = strrchr(text, ')');
    return name_end ? parse_stat(ret, pid, name_end + 1) : -EBADMSG;
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

int table_read(ProcessTable *table)
{
    _cleanup_(closedirp) DIR *directory = opendir("/proc");
    struct dirent *entry;

    if (!directory)
        return -errno;
    table->n = 0;
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

Process *table_find(const ProcessTable *table, pid_t pid)
{
    if (table->n == 0)
        return NULL;
    return bsearch(&(Process){.pid = pid}, table->items, table->n, sizeof(Process), compare_pids);
}

bool table_descends(const ProcessTable *table, const Process *process, pid_t ancestor)
{
    /* Pids that are used again could make a circle. */
    for (size_t steps = 0; steps <= table->n && process; steps++) {
        if (process->parent == ancestor)
            return true;
        process = table_find(table, process->parent);
    }
    return false;
}
