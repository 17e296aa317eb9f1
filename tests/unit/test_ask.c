/* guest/supervisor/call/result.h and call.h: what a call may ask, and the time that it
 * takes. */
#include <string.h>

#include "guest/supervisor/call/call.h"
#include "guest/supervisor/call/result.h"
#include "proto/base/clock.h"
#include "proto/limits.h"
#include "tests/support/cmocka.h"

static MsgAsk question(uint64_t number)
{
    return (MsgAsk){.ask = number, .kind = {"tool", 4}, .name = {"f", 1}, .payload = {"x", 1}};
}

static void ask(Questions *questions, uint64_t number, const char *refusal)
{
    MsgAsk asked = question(number);
    const char *why = questions_add(questions, 7, &asked);

    if (refusal)
        assert_string_equal(why, refusal);
    else
        assert_null(why);
}

TEST(test_in_all)
{
    Questions questions;

    questions_init(&questions, ASK_COUNT);
    for (uint64_t i = 1; i <= LIMIT_ASKED; i++) {
        ask(&questions, i, NULL);
        assert_true(questions_take(&questions, i));
        assert_false(questions_take(&questions, i));
    }
    ask(&questions, 1, "this call has asked too many questions");
    assert_int_equal(questions.count, 0);
    questions_deinit(&questions);
}

TEST(test_at_once)
{
    Questions questions;

    questions_init(&questions, ASK_PAUSE);
    for (uint64_t i = 0; i < LIMIT_ASKS; i++)
        ask(&questions, i, NULL);
    ask(&questions, LIMIT_ASKS, "too many questions wait for an answer");
    assert_true(questions_take(&questions, 3));
    ask(&questions, 4, "a question with this number is already waiting");
    ask(&questions, LIMIT_ASKS, NULL);
    assert_true(questions_unsent(&questions));
    questions_deinit(&questions);
    assert_false(questions_unsent(&questions));
    ask(&questions, 1, "there is no client to ask");
}

static uint64_t woken;

/* The supervisor is held up once it has asked the first time. */
static void stand_still(Interruption *interruption, InterruptionStep step)
{
    if (step == INTERRUPTION_STEP_ASK) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        woken = clock_now();
        return;
    }
    assert_int_equal(step, INTERRUPTION_STEP_ASK_MORE);
    loop_stop(interruption->loop, 0);
}

TEST(test_a_call_has_its_time_where_the_supervisor_was_held_up)
{
    _cleanup_(loop_freep) Loop *loop = NULL;
    Interruption interruption;

    assert_int_equal(loop_new(&loop), 0);
    assert_int_equal(interruption_begin(&interruption, loop, 0, stand_still), 0);
    assert_int_equal(loop_run(loop), 0);
    assert_true(interruption.timer.due >= woken + clock_from_seconds(LADDER_KILL - LADDER_SECOND_SIGINT));
    interruption_end(&interruption);
}
