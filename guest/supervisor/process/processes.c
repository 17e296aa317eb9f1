#include "guest/supervisor/process/processes.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/supervisor/process/spawn.h"
#include "proto/base/clock.h"
#include "proto/base/proc.h"

/* ---- their control group ---- */

/* File of a container's own group, of version 2. */
#define OOM_GROUP "/sys/fs/cgroup/memory.oom.group"

bool processes_end_together(void)
{
    static enum { UNKNOWN, ALONE, TOGETHER } known;
    FILE *file = known == UNKNOWN ? fopen(OOM_GROUP, "re") : NULL;

    if (known == UNKNOWN)
        known = file && fgetc(file) == '1' ? TOGETHER : ALONE;
    if (file)
        fclose(file);
    return known == TOGETHER;
}

/* ---- the table of processes ---- */

void table_deinit(ProcessTable *table)
{
    free(table->items);
    *table = (ProcessTable){0};
}

/* Reads one process. 0 or a negative errno. */
static int process_read(Process *ret, pid_t pid)
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

/* Ends, although others may be born faster than they are read. */
#define DESCENDANTS_MAX 65536u

/* Reads the descendants alone: other processes of the machine may be many. */
static int add_descendants(ProcessTable *table, pid_t ancestor)
{
    int r = proc_each_child(ancestor, add_read, table);

    for (size_t i = 0; r == 0 && i < table->n && table->n < DESCENDANTS_MAX; i++) {
        r = proc_each_child(table->items[i].pid, add_read, table);
        if (r == -ENOENT || r == -ESRCH)
            r = 0; /* it has ended */
    }
    return r;
}

int table_read(ProcessTable *table)
{
    pid_t self = getpid();
    int r;

    table->n = table->missed = 0;
    r = self == 1 ? proc_each(add_read, table) : add_descendants(table, self);
    if (r == 0 && table->n > 0)
        qsort(table->items, table->n, sizeof(Process), compare_pids);
    return r;
}

/* NULL when it is not in the table. */
static Process *table_find(const ProcessTable *table, pid_t pid)
{
    if (table->n == 0)
        return NULL;
    return bsearch(&(Process){.pid = pid}, table->items, table->n, sizeof(Process), compare_pids);
}

/* Returns whether `process` descends from `ancestor`; a process is no descendant of itself. */
static bool table_descends(const ProcessTable *table, const Process *process, pid_t ancestor)
{
    /* Pids that are used again could make a circle. */
    for (size_t steps = 0; steps <= table->n && process; steps++) {
        if (process->parent == ancestor)
            return true;
        process = table_find(table, process->parent);
    }
    return false;
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

/* ---- all of them ---- */

static void kill_descendants_by_walk(void)
{
    _cleanup_(table_deinit) ProcessTable table = {0};
    pid_t self = getpid();

    if (table_read(&table) < 0)
        return;
    for (size_t i = 0; i < table.n; i++)
        if (table_descends(&table, &table.items[i], self))
            kill(table.items[i].pid, SIGKILL);
}

static void kill_descendants(void)
{
    /* No fork can slip past this one call. It means everyone, so only process 1 of a namespace may use it. */
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

        struct timespec left = clock_timespec(end - now);
        sigtimedwait(&child, NULL, &left);
    }
    return 0;
}

/* ---- all but some ---- */

/* Rounds in a row that must find nothing new: a walk can miss one whose parent has just ended. */
#define QUIET_ROUNDS 2

/* Rounds that are tried however slow the machine is. Processes are stopped only if killing alone does not
 * converge: a shell that sees its child stopped takes the terminal back. */
#define ROUNDS_MINIMUM 10

typedef struct Purge {
    const ProcessesKeep *keep;
    pid_t self, uncounted;
    bool stopping;            /* nobody is to run, but the caller */
    ProcessTable now, before; /* marked: killed by us */
    ProcessTable earlier;     /* before anyone was stopped */
    size_t moved;             /* in this round: killed, or gone before they could be */
    size_t awake;             /* in this round: still to stop */
    int counted;
} Purge;

static void purge_deinit(Purge *purge)
{
    table_deinit(&purge->now);
    table_deinit(&purge->before);
    table_deinit(&purge->earlier);
}

static bool is_kept(const Purge *purge, const Process *process)
{
    const ProcessesKeep *keep = purge->keep;

    for (size_t i = 0; i < keep->alone_count; i++)
        if (process->pid == keep->alone[i])
            return true;
    for (size_t i = 0; i < keep->family_count; i++)
        if (process->pid == keep->families[i] || process->session == keep->families[i] ||
            table_descends(&purge->now, process, keep->families[i]))
            return true;
    return false;
}

/* Only of those that would be killed: one more file to read. */
static bool is_marked(const Purge *purge, const Process *process)
{
    return purge->keep->mark && process_has_group(process->pid, purge->keep->mark);
}

/* Process 1 answers for everyone in its namespace, another process for its descendants. */
static bool is_ours(const Purge *purge, const Process *process)
{
    if (process->pid == purge->self)
        return false;
    return purge->self == 1 || table_descends(&purge->now, process, purge->self);
}

static void purge_one(Purge *purge, Process *process)
{
    const Process *earlier = table_find(&purge->before, process->pid);

    process->marked = earlier && earlier->marked;
    process->spared = earlier && earlier->spared;
    if (process->marked || process->spared || !is_ours(purge, process) || is_kept(purge, process))
        return;
    process->spared = is_marked(purge, process);
    if (process->spared)
        return;
    if (kill(process->pid, SIGKILL) < 0) {
        purge->moved += errno == ESRCH; /* and what it has left is still to be found */
        return;
    }
    process->marked = true;
    purge->moved++;
    purge->counted += process->pid != purge->uncounted && !process->dying;
}

/* A fork() in progress completes although its parent has been stopped (Linux 4.19 and later), and the child
 * starts stopped. While anybody runs, another stopped child may appear. */
static bool is_awake(const Purge *purge, const Process *process)
{
    return process->pid != purge->self && process->awake && !process->dying;
}

static int purge_round(Purge *purge)
{
    ProcessTable read = purge->before;

    purge->before = purge->now;
    purge->now = read;
    /* Again in each round: a process that had not yet stopped may have woken another. */
    if (purge->stopping)
        kill(-1, SIGSTOP);

    int r = table_read(&purge->now);
    purge->moved = purge->self == 1 ? purge->now.missed
                                    : 0; /* others cannot stop those that are kept, which come and go */
    purge->awake = 0;
    for (size_t i = 0; r == 0 && i < purge->now.n; i++) {
        purge_one(purge, &purge->now.items[i]);
        purge->awake += purge->stopping && is_awake(purge, &purge->now.items[i]);
    }
    return r;
}

/* Somebody had stopped it before. */
static bool has_stood(const Purge *purge, const Process *process)
{
    const Process *earlier = table_find(&purge->earlier, process->pid);

    return earlier && earlier->stopped;
}

static void wake_kept(const Purge *purge)
{
    /* Children first: a shell that sees one of its own stand still takes the terminal from it. */
    for (size_t i = purge->now.n; i > 0; i--) {
        const Process *process = &purge->now.items[i - 1];

        if ((process->spared || is_kept(purge, process)) && !has_stood(purge, process))
            kill(process->pid, SIGCONT);
    }
}

/* Until nothing is left to be found. -ETIMEDOUT: there is always more, after `end` still. */
static int purge_all(Purge *purge, uint64_t end)
{
    int left = QUIET_ROUNDS, r = 0;

    for (int round = 0; r == 0 && left > 0; round++) {
        bool late = round >= ROUNDS_MINIMUM && clock_now() >= end;

        r = purge_round(purge);
        left = purge->moved == 0 && (purge->awake == 0 || late) ? left - 1 : QUIET_ROUNDS;
        if (r == 0 && purge->moved > 0 && late)
            r = -ETIMEDOUT;
    }
    return r;
}

int processes_end_others(const ProcessesKeep *keep, pid_t uncounted, uint64_t limit)
{
    Purge purge _cleanup_(purge_deinit) = {.keep = keep, .self = getpid(), .uncounted = uncounted};
    uint64_t now = clock_now();
    bool may_stop = purge.self == 1; /* as `kill_descendants` */
    int r = purge_all(&purge, may_stop ? now : now + limit);

    if (r == -ETIMEDOUT && may_stop) {
        table_read(&purge.earlier); /* where that fails, all are woken */
        purge.stopping = true;
        r = purge_all(&purge, now + limit);
        wake_kept(&purge);
    }
    return r < 0 ? r : purge.counted;
}

/* ---- questions about one process ---- */

bool processes_is_descendant(pid_t pid)
{
    pid_t self = getpid();
    Process process = {.parent = pid};

    while (process.parent > 1 && process.parent != self)
        if (process_read(&process, process.parent) < 0)
            return false;
    return process.parent == self && pid != self;
}

bool processes_is_child(pid_t pid)
{
    siginfo_t info = {0};

    if (pid <= 0 || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        return false;
    return info.si_pid == 0;
}

void processes_await_end(pid_t pid, uint64_t limit)
{
    _cleanup_(closep) int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
    struct timespec left = {(time_t)(limit / NSEC_PER_SEC), (long)(limit % NSEC_PER_SEC)};

    if (fd >= 0)
        ppoll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, &left, NULL);
}

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
