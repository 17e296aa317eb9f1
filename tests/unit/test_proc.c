/* proto/base/proc.h: what /proc tells of processes. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/proc.h"
#include "tests/support/cmocka.h"

static pid_t start(const char *name)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        for (;;)
            pause();
    }
    return pid;
}

TEST(test_until_it_ends)
{
    pid_t pid = start("a) Z 1\nState:\tZ");

    assert_true(proc_is_alive(getpid()));
    assert_true(proc_is_alive(pid));
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_false(proc_is_alive(pid)); /* nobody has waited for it */
    waitpid(pid, NULL, 0);
    assert_false(proc_is_alive(pid));
}

/* From the signal on, not from its end on. */
TEST(test_told_to_end)
{
    for (int i = 0; i < 200; i++) {
        pid_t pid = start("short");

        kill(pid, SIGKILL);
        assert_false(proc_is_alive(pid));
        waitpid(pid, NULL, 0);
    }
}

typedef struct Sought {
    pid_t pid;
    unsigned found;
} Sought;

static int look_for(void *userdata, pid_t pid)
{
    Sought *sought = userdata;

    sought->found += pid == sought->pid;
    return 0;
}

static int stop(void *userdata, pid_t pid)
{
    ++*(unsigned *)userdata;
    return -7;
}

TEST(test_children)
{
    pid_t pid = start("child");
    Sought among_all = {.pid = pid}, among_ours = {.pid = pid};
    ProcMemory memory;
    unsigned calls = 0;
    ProcStat stat;

    assert_int_equal(proc_each(look_for, &among_all), 0);
    assert_int_equal(proc_each_child(0, look_for, &among_ours), 0);
    assert_int_equal(among_all.found, 1);
    assert_int_equal(among_ours.found, 1);
    assert_int_equal(proc_each_child(getpid(), stop, &calls), -7);
    assert_int_equal(calls, 1);
    assert_int_equal(proc_stat(&stat, pid), 0);
    assert_int_equal(stat.parent, getpid());
    assert_int_equal(proc_memory(&memory, pid), 0);
    assert_in_range(memory.resident, memory.shared, UINT64_C(1) << 40);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_true(proc_memory(&memory, pid) < 0);
}
