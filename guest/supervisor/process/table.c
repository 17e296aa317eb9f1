#include "guest/supervisor/process/table.h"

#include <errno.h>
#include <string.h>

#include "proto/base/proc.h"

void table_deinit(ProcessTable *table)
{
    free(table->items);
    *table = (ProcessTable){0};
}

int process_read(Process *ret, pid_t pid)
{
    ProcStat stat;
    int r = proc_stat(&stat, pid);

    if (r == 0)
        *ret = (Process){.pid = pid,
                         .parent = stat.parent,
                         .session = stat.session,
                         .dying = stat.dying,
                         .awake = stat.awake,
                         .stopped = stat.stopped};
    return r;
}

bool process_has_group(pid_t pid, gid_t group)
{
    char text[1024];
    const char *at = proc_read(pid, "status", text, sizeof(text)) > 0 ? strstr(text, "\nGroups:") : NULL;
    char *end;

    for (at = at ? at + strlen("\nGroups:") : ""; *at && *at != '\n'; at = end) {
        unsigned long number = strtoul(at, &end, 10);

        if (end == at || *at == '\n')
            break;
        if (number == group)
            return true;
        end += strspn(end, "\t ");
    }
    return false;
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

static int add_read(void *userdata, pid_t pid)
{
    ProcessTable *table = userdata;
    Process process;

    if (process_read(&process, pid) == 0)
        return table_add(table, &process);
    table->missed++;
    return 0;
}

int table_read(ProcessTable *table)
{
    int r;

    table->n = table->missed = 0;
    r = proc_each(add_read, table);
    if (r == 0 && table->n > 0)
        qsort(table->items, table->n, sizeof(Process), compare_pids);
    return r;
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
