/* guest/supervisor/call/result.h, branch/state_change.h and interpreter/environment.h: pure decisions. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guest/supervisor/interpreter/environment.h"
#include "guest/supervisor/call/result.h"

static const MsgCellExecuted quiet = {.result = {"1", 1}, .has_changed = true, .cpu = 0.5, .peak_memory = 7};
static const MsgCellExecuted raised = {.has_error = true,
                                       .error = {{"KeyboardInterrupt", 17}, {"", 0}, {"trace", 5}}};

static void assert_finished(const MsgCellExecuted *executed, InterruptionCause cause, const char *status,
                            const char *error)
{
    Outcome outcome;

    outcome_finished(&outcome, executed, cause, 2.5);
    outcome_settle(&outcome, &STATE_UNCHANGED);
    assert_string_equal(outcome.status, status);
    assert_int_equal(outcome.exit_code, -1);
    assert_int_equal(outcome.signal, 0);
    assert_int_equal(outcome.has_changed, executed->has_changed);
    if (error)
        assert_true(text_equal(outcome.error.name, error));
    else
        assert_null(outcome.error.name.data);
    if (error && executed == &quiet)
        assert_non_null(strstr(outcome.message, "; its variables are kept"));
}

static void test_finished(void **state)
{
    assert_finished(&quiet, INTERRUPTION_CAUSE_NONE, "ok", NULL);
    assert_finished(&raised, INTERRUPTION_CAUSE_NONE, "error", "KeyboardInterrupt");
    assert_finished(&raised, INTERRUPTION_CAUSE_DEADLINE, "timeout", "KeyboardInterrupt");
    assert_finished(&raised, INTERRUPTION_CAUSE_INTERRUPT, "interrupted", "KeyboardInterrupt");
    assert_finished(&quiet, INTERRUPTION_CAUSE_DEADLINE, "timeout", "Timeout");
    assert_finished(&quiet, INTERRUPTION_CAUSE_INTERRUPT, "interrupted", "Interrupted");
}

static bool needs_start(const char *from, const char *to)
{
    char *entries[2][3] = {{(char *)"HOME=/", (char *)from, NULL}, {(char *)"HOME=/", (char *)to, NULL}};

    return environment_needs_start(&(Environment){entries[0], from ? 2 : 1},
                                   &(Environment){entries[1], to ? 2 : 1});
}

static void test_environment_that_is_read_at_start(void **state)
{
    static const char *const read[] = {
        "PYTHONHASHSEED=1",  "LD_PRELOAD=x", "MALLOC_ARENA_MAX=1", "GLIBC_TUNABLES=x",
        "OMP_NUM_THREADS=1", "MKL_DEBUG=1",  "LC_ALL=C",           "LANG=C",
        "MPLBACKEND=svg",    "TMPDIR=/x",    "GOTO_NUM_THREADS=1"};
    static const char *const other[] = {"TZ=UTC", "PATH=/bin", "MY_PYTHON=1", "LANGCHAIN_X=1",
                                        "GREETING=hello"};

    for (size_t i = 0; i < ARRAY_SIZE(read); i++) {
        assert_true(needs_start(NULL, read[i]));
        assert_true(needs_start(read[i], NULL));
        assert_true(needs_start(read[i], "PYTHONPATH=/"));
        assert_false(needs_start(read[i], read[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(other); i++)
        assert_false(needs_start(NULL, other[i]) || needs_start(other[i], NULL));
}

static void test_words_outlive_their_message(void **state)
{
    char result[] = "the result", name[] = "Error", message[] = "the message", trace[] = "the trace";
    const MsgCellExecuted executed = {.result = {result, 10},
                                      .has_error = true,
                                      .error = {{name, 5}, {message, 11}, {trace, 9}},
                                      .has_changed = true};
    Buf words _cleanup_(buf_deinit) = BUF_NULL;
    Outcome outcome;

    outcome_finished(&outcome, &executed, INTERRUPTION_CAUSE_NONE, 1);
    assert_int_equal(outcome_own(&outcome, &words), 0);
    memset(result, 'x', sizeof(result));
    memset(name, 'x', sizeof(name));
    memset(message, 'x', sizeof(message));
    memset(trace, 'x', sizeof(trace));
    assert_true(text_equal(outcome.result, "the result"));
    assert_true(text_equal(outcome.error.name, "Error"));
    assert_true(text_equal(outcome.error.message, "the message"));
    assert_true(text_equal(outcome.error.traceback, "the trace"));
    assert_false(outcome.has_changed);
}

static void test_own_words_with_a_message_of_ours(void **state)
{
    Buf words _cleanup_(buf_deinit) = BUF_NULL;
    Outcome outcome;

    outcome_finished(&outcome, &quiet, INTERRUPTION_CAUSE_DEADLINE, 2.5);
    assert_int_equal(outcome_own(&outcome, &words), 0);
    outcome_settle(&outcome, &(StateChange){.state = STATE_ROLLED_BACK, .execution_count = 4});
    assert_ptr_equal(outcome.error.message.data, outcome.message);
    assert_int_equal(outcome.error.message.size, strlen(outcome.message));
    assert_non_null(strstr(outcome.message,
                           "after 2.5 s, caught that, and ended by itself; its variables are "
                           "as they were after call 4 (the call before this one)"));
}

static void assert_lost(Loss loss, const char *status, const char *error, const char *words)
{
    Outcome outcome;

    outcome_lost(&outcome, &loss);
    outcome_settle(&outcome, &(StateChange){.state = STATE_LOST, .reason = "why not"});
    assert_string_equal(outcome.status, status);
    assert_true(text_equal(outcome.error.name, error));
    assert_non_null(strstr(outcome.message, words));
    assert_non_null(strstr(outcome.message, "its variables are lost, files in /session are kept (why not)"));
    assert_true(utf8_valid(outcome.message, strlen(outcome.message)));
    assert_int_equal(outcome.signal, strcmp(words, "SIGSEGV") == 0 ? SIGSEGV : 0);
    assert_int_equal(outcome.exit_code, strcmp(status, "exited") == 0 ? 3 : -1);
}

static void test_lost(void **state)
{
    char long_fault[2000];

    memset(long_fault, '\xc3', sizeof(long_fault) - 1);
    long_fault[sizeof(long_fault) - 1] = '\0';
    assert_lost((Loss){.killed = INTERRUPTION_CAUSE_DEADLINE, .timeout = 2.5, .status = SIGKILL}, "timeout",
                "TimeoutKilled", "2.5 s");
    assert_lost((Loss){.killed = INTERRUPTION_CAUSE_INTERRUPT, .status = SIGKILL}, "interrupted",
                "InterruptKilled", "interrupted");
    assert_lost((Loss){.killed = INTERRUPTION_CAUSE_INTERRUPT, .reset = true}, "interrupted",
                "InterruptKilled", "reset");
    assert_lost((Loss){.status = 3 << 8}, "exited", "Exited", "exit code 3");
    assert_lost((Loss){.status = SIGSEGV | 0x80}, "crashed", "Crashed", "SIGSEGV");
    assert_lost((Loss){.status = SIGKILL, .fault = "it was rude"}, "crashed", "Crashed", "it was rude");
    assert_lost((Loss){.status = SIGKILL, .fault = long_fault}, "crashed", "Crashed", "protocol");
}

static void test_never_run(void **state)
{
    Outcome outcome;

    outcome_never_begun(&outcome);
    outcome_settle(&outcome, &STATE_UNCHANGED);
    assert_string_equal(outcome.status, "interrupted");
    assert_null(strstr(outcome.message, "variables"));
    outcome_failed(&outcome, "CheckpointFailed", "what", "why");
    outcome_settle(&outcome, &STATE_UNCHANGED);
    assert_string_equal(outcome.status, "failed");
    assert_string_equal(outcome.message, "what: why");
}

/* StateChange */

static void assert_described(const StateChange *change, const char *words)
{
    char sentence[1024] = "It ended", small[16] = "It ended";

    state_change_describe(change, sentence, sizeof(sentence));
    assert_memory_equal(sentence, "It ended; its variables are ", 28);
    assert_string_equal(sentence + 28, words);
    state_change_describe(change, small, sizeof(small));
    assert_memory_equal(small, "It ended; its v", 16);
}

static void test_state_changes(void **state)
{
    assert_described(&STATE_UNCHANGED, "kept");
    assert_described(&(StateChange){.state = STATE_LOST},
                     "lost, files in /session are kept (no checkpoint had been taken yet)");
    assert_described(&(StateChange){.state = STATE_LOST, .reason = "checkpoints are off"},
                     "lost, files in /session are kept (checkpoints are off)");
    assert_described(&(StateChange){.state = STATE_ROLLED_BACK, .execution_count = 7},
                     "as they were after call 7 (the call before this one)");
    assert_described(&(StateChange){.state = STATE_ROLLED_BACK, .execution_count = 7, .reason = "off"},
                     "as they were after call 7 (the call before this one)");
    assert_described(&(StateChange){.state = STATE_ROLLED_BACK}, "as they were before the first call");
    assert_described(&(StateChange){.state = STATE_ROLLED_BACK, .execution_count = 7, .calls = 1},
                     "as they were after call 7: the next call followed too soon for a checkpoint");
    assert_described(
        &(StateChange){.state = STATE_ROLLED_BACK, .execution_count = 7, .calls = 2},
        "as they were after call 7: the 2 calls after it followed each other too closely for a checkpoint");
    assert_described(
        &(StateChange){.state = STATE_ROLLED_BACK, .calls = 2, .reason = "the checkpoint was lost"},
        "as they were before the first call: later changes are lost, because the checkpoint was lost");
}

static void test_reasons_are_cut_at_a_character(void **state)
{
    char text[2 * LIMIT_NOTE];
    Reason reason;

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(text + LIMIT_NOTE - 1, "\xc3\xa4", 2);
    reason_set(reason, "%s", text);
    assert_int_equal(strlen(reason), LIMIT_NOTE - 1);
    memcpy(text + LIMIT_NOTE - 2, "\xc3\xa4z", 3);
    reason_set(reason, "%s", text);
    assert_int_equal(strlen(reason), LIMIT_NOTE);
    assert_true(utf8_valid(reason, strlen(reason)));
}

static void test_state_changes_move(void **state)
{
    StateChange from = {.state = STATE_ROLLED_BACK, .checkpoint = 3}, to = {.state = STATE_LOST};

    notes_add(&from.not_restored, (Text){"a thread", 8});
    state_change_move(&to, &from);
    assert_int_equal(to.checkpoint, 3);
    assert_int_equal(to.not_restored.n, 1);
    assert_int_equal(from.state, STATE_KEPT);
    assert_int_equal(from.not_restored.n, 0);
    state_change_deinit(&to);
    assert_int_equal(to.state, STATE_KEPT);
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

    return environment_init(ret, "/session", 0, &(msgpack_object_map){1, &pair}, &problem);
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

static void assert_threads(const char *given, const char *openblas, const char *numexpr)
{
    Environment environment _cleanup_(environment_deinit) = {0};
    Problem problem = PROBLEM_NULL;

    if (given)
        setenv("OMP_NUM_THREADS", given, 1);
    else
        unsetenv("OMP_NUM_THREADS");
    assert_int_equal(environment_init(&environment, "/session", 0, NULL, &problem), 0);
    assert_string_equal(find_entry(&environment, "OPENBLAS_NUM_THREADS="), openblas);
    assert_string_equal(find_entry(&environment, "NUMEXPR_NUM_THREADS="), numexpr);
}

static void test_threads_follow_the_engine(void **state)
{
    assert_threads(NULL, "OPENBLAS_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1");
    assert_threads("3", "OPENBLAS_NUM_THREADS=3", "NUMEXPR_NUM_THREADS=3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finished),
        cmocka_unit_test(test_environment_that_is_read_at_start),
        cmocka_unit_test(test_words_outlive_their_message),
        cmocka_unit_test(test_own_words_with_a_message_of_ours),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_never_run),
        cmocka_unit_test(test_state_changes),
        cmocka_unit_test(test_reasons_are_cut_at_a_character),
        cmocka_unit_test(test_state_changes_move),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_threads_follow_the_engine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
