/* guest/supervisor/call/result.h, branch/branch.h and interpreter/environment.h: pure decisions. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "guest/supervisor/call/result.h"
#include "guest/supervisor/interpreter/environment.h"
#include "tests/support/cmocka.h"

static bool needs_start(const char *from, const char *to)
{
    char *entries[2][3] = {{(char *)"HOME=/", (char *)from, NULL}, {(char *)"HOME=/", (char *)to, NULL}};

    return environment_needs_start(&(Environment){entries[0], from ? 2 : 1},
                                   &(Environment){entries[1], to ? 2 : 1});
}

TEST(test_environment_that_is_read_at_start)
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

TEST(test_words_outlive_their_message)
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

/* A fault is told in the interpreter's words, of which no character is cut. */
TEST(test_a_long_fault)
{
    char fault[2000];
    Outcome outcome;

    memset(fault, '\xc3', sizeof(fault) - 1);
    fault[sizeof(fault) - 1] = '\0';
    outcome_lost(&outcome, &(Loss){.status = SIGKILL, .fault = fault});
    outcome_settle(&outcome, &(StateChange){.state = STATE_LOST, .reason = "why not"});
    assert_non_null(strstr(outcome.message, "its variables are lost, files in /session are kept (why not)"));
    assert_true(utf8_valid(outcome.message, strlen(outcome.message)));
}

TEST(test_reasons_are_cut_at_a_character)
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
