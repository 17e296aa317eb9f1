/* guest/supervisor/outcome.h and environment.h: pure decisions. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "guest/supervisor/environment.h"
#include "guest/supervisor/outcome.h"

static const Executed quiet = {.result = {"1", 1}, .cpu = 0.5, .peak_memory = 7};
static const Executed raised = {.error = {{"KeyboardInterrupt", 17}, {"", 0}, {"trace", 5}}};

static void assert_finished(const Executed *executed, LadderCause cause, const char *status,
                            const char *error)
{
    Outcome outcome;

    outcome_finished(&outcome, executed, cause, 2.5);
    assert_string_equal(outcome.status, status);
    assert_false(outcome.state_lost);
    assert_int_equal(outcome.exit_code, -1);
    assert_int_equal(outcome.signal, 0);
    if (error)
        assert_true(text_equal(outcome.error.name, error));
    else
        assert_null(outcome.error.name.data);
}

static void test_finished(void **state)
{
    assert_finished(&quiet, LADDER_CAUSE_NONE, "ok", NULL);
    assert_finished(&raised, LADDER_CAUSE_NONE, "error", "KeyboardInterrupt");
    assert_finished(&raised, LADDER_CAUSE_DEADLINE, "timeout", "KeyboardInterrupt");
    assert_finished(&raised, LADDER_CAUSE_INTERRUPT, "interrupted", "KeyboardInterrupt");
    assert_finished(&quiet, LADDER_CAUSE_DEADLINE, "timeout", "Timeout");
    assert_finished(&quiet, LADDER_CAUSE_INTERRUPT, "interrupted", "Interrupted");
}

static void assert_lost(Loss loss, const char *status, const char *error, const char *words)
{
    Outcome outcome;

    outcome_lost(&outcome, &loss);
    assert_string_equal(outcome.status, status);
    assert_true(outcome.state_lost);
    assert_true(text_equal(outcome.error.name, error));
    assert_non_null(strstr(outcome.message, words));
    assert_non_null(strstr(outcome.message, "its variables are lost, files in /session are kept"));
    assert_true(utf8_valid(outcome.message, strlen(outcome.message)));
    assert_int_equal(outcome.signal, strcmp(words, "SIGSEGV") == 0 ? SIGSEGV : 0);
    assert_int_equal(outcome.exit_code, strcmp(status, "exited") == 0 ? 3 : -1);
}

static void test_lost(void **state)
{
    char long_fault[2000];

    memset(long_fault, '\xc3', sizeof(long_fault) - 1);
    long_fault[sizeof(long_fault) - 1] = '\0';
    assert_lost((Loss){.killed = LADDER_CAUSE_DEADLINE, .timeout = 2.5, .status = SIGKILL}, "timeout",
                "TimeoutKilled", "2.5 s");
    assert_lost((Loss){.killed = LADDER_CAUSE_INTERRUPT, .status = SIGKILL}, "interrupted", "InterruptKilled",
                "interrupted");
    assert_lost((Loss){.killed = LADDER_CAUSE_INTERRUPT, .reset = true}, "interrupted", "InterruptKilled",
                "reset");
    assert_lost((Loss){.status = 3 << 8}, "exited", "Exited", "exit code 3");
    assert_lost((Loss){.status = SIGSEGV | 0x80}, "crashed", "Crashed", "SIGSEGV");
    assert_lost((Loss){.status = SIGKILL, .fault = "it was rude"}, "crashed", "Crashed", "it was rude");
    assert_lost((Loss){.status = SIGKILL, .fault = long_fault}, "crashed", "Crashed", "protocol");
}

static const char *find_entry(const Environment *environment, const char *name)
{
    for (size_t i = 0; i < environment->n; i++)
        if (strncmp(environment->entries[i], name, strlen(name)) == 0)
            return environment->entries[i];
    return NULL;
}

/* An environment with one pair set. */
static int make(Environment *ret, const char *name, const char *value, size_t size)
{
    msgpack_object_kv pair = {
        .key = {.type = MSGPACK_OBJECT_STR, .via.str = {(uint32_t)strlen(name), name}},
        .val = {.type = MSGPACK_OBJECT_STR, .via.str = {(uint32_t)size, value}},
    };
    Problem problem = PROBLEM_NULL;

    return environment_init(ret, "/session", &(msgpack_object_map){1, &pair}, &problem);
}

static void test_environment(void **state)
{
    Environment environment;

    assert_int_equal(make(&environment, "LANG", "de_DE.UTF-8", 11), 0);
    assert_string_equal(find_entry(&environment, "LANG="), "LANG=de_DE.UTF-8");
    assert_string_equal(find_entry(&environment, "HOME="), "HOME=/session");
    assert_null(environment.entries[environment.n]);
    environment_deinit(&environment);

    assert_int_equal(make(&environment, "LAN", "x", 1), 0);
    assert_string_equal(find_entry(&environment, "LANG="), "LANG=C.UTF-8");
    assert_string_equal(find_entry(&environment, "LAN="), "LAN=x");
    environment_deinit(&environment);

    assert_int_equal(make(&environment, "A=B", "x", 1), -EPROTO);
    assert_int_equal(make(&environment, "", "x", 1), -EPROTO);
    assert_int_equal(make(&environment, "A", "x\0y", 3), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finished),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
