/* guest/supervisor/process: every descendant ends, whatever it did to get away, but for those that are kept;
 * what processes hold.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"
#include "tests/support/cmocka.h"

#define LIMIT (20 * NSEC_PER_SEC)

typedef struct Seen {
    int count;
    pid_t pid;
    int status; /* of `pid` */
} Seen;

static void on_reaped(void *context, pid_t pid, int status, const struct rusage *usage)
{
    Seen *seen = context;

    seen->count++;
    if (pid == seen->pid)
        seen->status = status;
}

static void write_pid(int fd)
{
    pid_t pid = getpid();

    if (write(fd, &pid, sizeof(pid)) != sizeof(pid))
        _exit(1);
}

/* Runs `body` in a child, which tells the pids of the processes it makes, and waits for `n` of them. */
static pid_t start(void (*body)(int fd), pid_t *pids, size_t n)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(read(ends[0], &pids[i], sizeof(pid_t)), sizeof(pid_t));
    close(ends[0]);
    return child;
}

static void assert_all_gone(const pid_t *pids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(kill(pids[i], 0), -1);
        assert_int_equal(errno, ESRCH);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void stay_stopped(int fd)
{
    write_pid(fd);
    raise(SIGSTOP);
}

TEST(test_a_stopped_one)
{
    pid_t pid;
    Seen seen = {0};

    seen.pid = start(stay_stopped, &pid, 1);
    assert_int_equal(processes_end_all(LIMIT, on_reaped, &seen), 0);
    assert_int_equal(WTERMSIG(seen.status), SIGKILL);
    assert_all_gone(&pid, 1);
}

/* Makes a process whose parent goes, which it tells of itself only then: nobody counts the parent. */
static void fork_orphan(int fd)
{
    if (fork() == 0) {
        pid_t parent = getpid();

        if (fork() != 0)
            _exit(0);
        while (getppid() == parent)
            sched_yield();
        write_pid(fd);
    }
}

/* Child, grandchild in a session of its own, and an orphan of a parent that has gone. */
static void make_family(int fd)
{
    write_pid(fd);
    if (fork() == 0) {
        setsid();
        write_pid(fd);
        fork_orphan(fd);
    }
}

TEST(test_orphans_and_sessions)
{
    pid_t pids[3];
    Seen seen = {0};

    start(make_family, pids, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(processes_is_descendant(pids[i]));
    assert_int_equal(processes_end_all(LIMIT, on_reaped, &seen), 0);
    assert_all_gone(pids, 3);
    assert_false(processes_is_descendant(pids[0]));
}

/* A relay: each process makes the next and ends at once, so that no list of processes is ever true. At most
 * so many, in case the test fails. */
static void run_away(int fd)
{
    write_pid(fd);
    for (int i = 0; i < 100000; i++) {
        pid_t next = fork();

        if (next > 0)
            _exit(0);
        if (i % 3 == 0)
            setsid();
    }
}

TEST(test_a_relay)
{
    pid_t pid;
    Seen seen = {0};

    start(run_away, &pid, 1);
    assert_int_equal(processes_end_all(LIMIT, on_reaped, &seen), 0);
    assert_all_gone(&pid, 1);
}

static bool has(const ProcessTable *table, pid_t pid)
{
    for (size_t i = 0; i < table->n; i++)
        if (table->items[i].pid == pid)
            return true;
    return false;
}

/* However many processes the machine has. */
TEST(test_descendants_alone_are_read)
{
    ProcessTable table = {0};
    pid_t pids[3];
    Seen seen = {0};

    start(make_family, pids, 3);
    assert_int_equal(table_read(&table), 0);
    for (size_t i = 0; i < 3; i++)
        assert_true(has(&table, pids[i]));
    for (size_t i = 0; i < table.n; i++)
        assert_true(processes_is_descendant(table.items[i].pid));
    table_deinit(&table);
    assert_int_equal(processes_end_all(LIMIT, on_reaped, &seen), 0);
}

/* All but some */

static bool is_alive(pid_t pid)
{
    siginfo_t info = {0};

    /* Orphans of ours count as well: they have become our children. */
    return kill(pid, 0) == 0 &&
           (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0);
}

static void wait_until_dead(pid_t pid)
{
    processes_await_end(pid, LIMIT);
    assert_false(is_alive(pid));
}

static void end_the_rest(void)
{
    Seen seen = {0};

    assert_int_equal(processes_end_all(LIMIT, on_reaped, &seen), 0);
}

TEST(test_one_is_kept_alone)
{
    pid_t pids[3];
    pid_t child = start(make_family, pids, 3);
    ProcessesKeep keep = {.alone = &child, .alone_count = 1};

    assert_int_equal(processes_end_others(&keep, 0, LIMIT), 2);
    wait_until_dead(pids[2]); /* an orphan, our child */
    assert_true(is_alive(child));
    assert_true(processes_is_child(child));
    end_the_rest();
    assert_all_gone(pids, 3);
}

TEST(test_a_family_is_kept)
{
    pid_t kept[3], ended[3];
    pid_t child = start(make_family, kept, 3), other = start(make_family, ended, 3);
    ProcessesKeep keep = {.families = &child, .family_count = 1};

    /* The orphan left the session of its family and belongs to nobody: it ends, as do the three others, of
     * which one is not counted. */
    assert_int_equal(processes_end_others(&keep, other, LIMIT), 3);
    assert_true(is_alive(kept[0]));
    assert_true(is_alive(kept[1]));
    wait_until_dead(kept[2]);
    wait_until_dead(other);
    end_the_rest();
    assert_all_gone(kept, 3);
    assert_all_gone(ended, 3);
}

/* An orphan that stays in the session of who leads the family. */
static void make_orphan(int fd)
{
    setsid();
    write_pid(fd);
    fork_orphan(fd);
}

TEST(test_orphans_of_a_session_are_family)
{
    pid_t pids[2];
    pid_t child = start(make_orphan, pids, 2);
    ProcessesKeep keep = {.families = &child, .family_count = 1};

    assert_int_equal(processes_end_others(&keep, 0, LIMIT), 0);
    assert_true(is_alive(pids[1]));
    assert_int_equal(processes_end_others(&(ProcessesKeep){0}, 0, LIMIT), 2);
    end_the_rest();
    assert_all_gone(pids, 2);
}

TEST(test_a_relay_beside_one_that_is_kept)
{
    pid_t kept, pid;
    pid_t child = start(stay_stopped, &kept, 1);
    ProcessesKeep keep = {.alone = &child, .alone_count = 1};

    start(run_away, &pid, 1);
    /* A process that is not process 1 may fail to catch it, but says so. */
    int r = processes_end_others(&keep, 0, NSEC_PER_SEC);
    assert_true(r >= 0 || r == -ETIMEDOUT);
    assert_true(is_alive(child));
    end_the_rest();
    assert_all_gone(&kept, 1);
}

/* As process 1 */

#define TIMES    200
#define FAMILIES 3

/* Counts of the families, in memory that all share. */
typedef struct Counts {
    _Atomic unsigned ended[FAMILIES];
    _Atomic unsigned stood;
} Counts;

static Counts *counts_new(void)
{
    return mmap(NULL, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

enum { AS_ASKED, NOT_AS_ASKED, NO_NAMESPACE };

static _Noreturn void be_process_1(int (*body)(void))
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mount("proc", "/proc", "proc", 0, NULL) < 0)
        _exit(NO_NAMESPACE);
    _exit(body()); /* all others end with it */
}

/* Runs `body` as process 1 of a namespace of its own. What it returns. */
static int as_process_1(int (*body)(void))
{
    int status;
    pid_t outer = fork();

    if (outer == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
            _exit(NO_NAMESPACE);
        pid_t inner = fork();
        if (inner == 0)
            be_process_1(body);
        waitpid(inner, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : NOT_AS_ASKED);
    }
    assert_int_equal(waitpid(outer, &status, 0), outer);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_as_process_1(int (*body)(void))
{
    int r = as_process_1(body);

    if (r == NO_NAMESPACE)
        skip();
    assert_int_equal(r, AS_ASKED);
}

/* Returns whether one more process is ended while those are kept. */
static bool ends_another(const ProcessesKeep *keep)
{
    pid_t another = fork();

    if (another == 0)
        for (;;)
            pause();
    return processes_end_others(keep, 0, LIMIT) == 1 && waitpid(another, NULL, 0) == another;
}

/* A command that runs one program after the other. */
static _Noreturn void run_programs(_Atomic unsigned *ended)
{
    for (;;) {
        pid_t program = fork();

        if (program == 0)
            _exit(0);
        waitpid(program, NULL, 0);
        ++*ended;
    }
}

static bool all_go_on(Counts *counts)
{
    uint64_t end = clock_now() + LIMIT;

    for (size_t i = 0; i < FAMILIES; i++) {
        unsigned before = counts->ended[i];

        while (counts->ended[i] == before && clock_now() < end)
            sched_yield();
        if (counts->ended[i] == before)
            return false;
    }
    return true;
}

static int programs_go_on(void)
{
    Counts *counts = counts_new();
    pid_t families[FAMILIES], stopped = fork();
    ProcessesKeep keep = {
        .families = families, .family_count = FAMILIES, .alone = &stopped, .alone_count = 1};
    int status;

    if (stopped == 0)
        for (raise(SIGSTOP);;)
            pause();
    waitpid(stopped, &status, WUNTRACED);
    for (size_t i = 0; i < FAMILIES; i++) {
        families[i] = fork();
        if (families[i] == 0)
            run_programs(&counts->ended[i]);
    }
    for (int i = 0; i < TIMES; i++)
        if (!ends_another(&keep) || !all_go_on(counts) ||
            waitpid(stopped, &status, WCONTINUED | WNOHANG) != 0)
            return NOT_AS_ASKED;
    return AS_ASKED;
}

/* Programs that are started without a pause are what a purge has to stop for; none may stand still for ever,
 * but whom somebody else has stopped. */
TEST(test_those_that_are_kept_go_on)
{
    assert_as_process_1(programs_go_on);
}

/* A shell and the program in its foreground. */
static _Noreturn void run_one_program(Counts *counts)
{
    int status;
    pid_t program = fork();

    if (program == 0)
        for (;;)
            pause();
    counts->ended[0] = 1;
    while (waitpid(program, &status, WUNTRACED) == program)
        ++counts->stood;
    _exit(0);
}

static int nobody_sees_one_stand(void)
{
    Counts *counts = counts_new();
    pid_t shell = fork();
    ProcessesKeep keep = {.families = &shell, .family_count = 1};

    if (shell == 0)
        run_one_program(counts);
    while (!counts->ended[0])
        sched_yield();
    for (int i = 0; i < TIMES; i++)
        if (!ends_another(&keep))
            return NOT_AS_ASKED;
    return counts->stood == 0 ? AS_ASKED : NOT_AS_ASKED;
}

TEST(test_a_shell_does_not_see_its_program_stand)
{
    assert_as_process_1(nobody_sees_one_stand);
}

static bool is_memory_of(const char *path, pid_t pid)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    assert_true(fd >= 0);
    bool is = footprint_is_opened(fd, pid);
    close(fd);
    return is;
}

TEST(test_memory_that_a_process_shows)
{
    Footprint footprint = {0};
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);

    assert_true(is_memory_of("/proc/self/smaps_rollup", getpid()));
    assert_false(is_memory_of("/proc/self/smaps_rollup", getppid()));
    assert_false(is_memory_of("/proc/self/maps", getpid()));
    assert_false(is_memory_of("/dev/null", getpid()));
    assert_int_equal(footprint_add_opened(&footprint, fd), 0);
    assert_int_equal(footprint_add_opened(&footprint, fd), 0); /* from its beginning */
    assert_true(footprint.private > 0);
    close(fd);
    assert_int_equal(footprint_add_opened(&footprint, -1), -EBADF);
}

int main(void)
{
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return tests_run(NULL, NULL);
}
