#include <errno.h>
#include <sys/wait.h>

#include "proto/base/loop.h"
#include "tests/support/cmocka.h"

static Loop *loop;

static int set_up(void **state)
{
    return loop_new(&loop);
}

static int tear_down(void **state)
{
    loop = loop_free(loop);
    return 0;
}

/* Signals */

static int signals_seen[65];
static pid_t signal_sender;

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    signals_seen[number]++;
    signal_sender = sender;
    if (signals_seen[SIGUSR1] && signals_seen[SIGUSR2]) {
        loop_signals_remove(signals);
        loop_stop(loop, 4);
    }
}

static void signals_come_as_events(void **state)
{
    LoopSignals signals = {0};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    assert_int_equal(loop_signals_add(loop, &signals, &set, on_signal), 0);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    assert_int_equal(loop_run(loop), 4);
    assert_int_equal(signals_seen[SIGUSR1], 1);
    assert_int_equal(signals_seen[SIGUSR2], 1);
    assert_int_equal(signal_sender, getpid());
    assert_null(signals.file.loop);
    loop_signals_remove(&signals);
}

/* Children */

typedef struct Child {
    LoopChild child;
    int status;
} Child;

static void on_exit_status(LoopChild *child, int status)
{
    container_of(child, Child, child)->status = status;
    assert_null(child->file.loop);
    loop_stop(loop, 6);
}

static int status_of_child(void (*body)(void))
{
    Child c = {.status = 4711};
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        body();
    assert_int_equal(loop_child_add(loop, &c.child, pid, on_exit_status), 0);
    assert_int_equal(loop_run(loop), 6);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* it was reaped */
    assert_int_equal(errno, ECHILD);
    return c.status;
}

static void exit_with_3(void)
{
    _exit(3);
}

static void die_of_sigterm(void)
{
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
    _exit(1);
}

static void children_are_reaped(void **state)
{
    int status = status_of_child(exit_with_3);

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    status = status_of_child(die_of_sigterm);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

/* A child that another part of the process has reaped already has no status for us. */
static void a_process_that_is_not_ours_has_no_status(void **state)
{
    Child c = {.status = 4711};
    int grandchild_pid[2], hold[2];
    pid_t child, grandchild;

    assert_int_equal(pipe(grandchild_pid), 0);
    assert_int_equal(pipe(hold), 0);
    child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        grandchild = fork();
        if (grandchild == 0) {
            (void)!read(hold[0], &byte, 1); /* until the test closes its end */
            _exit(0);
        }
        (void)!write(grandchild_pid[1], &grandchild, sizeof(grandchild));
        waitpid(grandchild, NULL, 0);
        _exit(0);
    }
    close(hold[0]);
    assert_int_equal(read(grandchild_pid[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_int_equal(loop_child_add(loop, &c.child, grandchild, on_exit_status), 0);
    close(hold[1]);
    assert_int_equal(loop_run(loop), 6);
    assert_int_equal(c.status, -1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(loop_child_add(loop, &c.child, grandchild, on_exit_status), -ESRCH);
    close(grandchild_pid[0]);
    close(grandchild_pid[1]);
}

static void a_removed_child_is_left_alone(void **state)
{
    Child c = {.status = 4711};
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(3);
    assert_int_equal(loop_child_add(loop, &c.child, pid, on_exit_status), 0);
    loop_child_remove(&c.child);
    loop_child_remove(&c.child);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_int_equal(c.status, 4711);
}

#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(signals_come_as_events),
        LOOP_TEST(children_are_reaped),
        LOOP_TEST(a_process_that_is_not_ours_has_no_status),
        LOOP_TEST(a_removed_child_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
