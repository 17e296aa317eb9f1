#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/pool/alive.h"

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

static void test_until_it_ends(void **state)
{
    pid_t pid = start("\nState:\tZ");

    assert_true(process_is_alive(getpid()));
    assert_true(process_is_alive(pid));
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_false(process_is_alive(pid)); /* nobody has waited for it */
    waitpid(pid, NULL, 0);
    assert_false(process_is_alive(pid));
}

/* From the signal on, not from its end on. */
static void test_told_to_end(void **state)
{
    for (int i = 0; i < 200; i++) {
        pid_t pid = start("short");

        kill(pid, SIGKILL);
        assert_false(process_is_alive(pid));
        waitpid(pid, NULL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_until_it_ends),
        cmocka_unit_test(test_told_to_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
