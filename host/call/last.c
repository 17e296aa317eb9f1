/* The last call of a session: no code, but the end of Python. */
#include <stdio.h>

#include "host/call/internal.h"

/* Time limit of exit functions, after which they are interrupted. */
#define LAST_SECONDS 5.0

static bool make_run_id(char ret[static LIMIT_RUN_ID + 1])
{
    char half[2][INSTANCE_SIZE];

    static_assert(LIMIT_RUN_ID == 2 * (INSTANCE_SIZE - 1), "it has as many random digits as two instances");
    if (!instance_make(half[0]) || !instance_make(half[1]))
        return false;
    snprintf(ret, LIMIT_RUN_ID + 1, "%s%s", half[0], half[1]);
    return true;
}

bool call_last(Calls *all, Session *session)
{
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Call *call = NULL;

    if (make_run_id(run_id))
        call = call_new(all, &call_turn_ops, session, run_id, (Text){"", 0}, LAST_SECONDS);
    if (!call)
        return false;
    call->last = true;
    if (call_queue(call, &problem) == 0)
        return true;
    call_fail(call, &problem);
    return false;
}

static int join(Buf *ret, Text before, Text last)
{
    int r = buf_append(ret, before.data, before.size);

    return r < 0 ? r : buf_append(ret, last.data, last.size);
}

static Text said(const Buf *text)
{
    return text->size > 0 ? (Text){(const char *)buf_head(text), text->size} : (Text){0};
}

/* Without memory for them nobody is told. */
void call_keep_last_words(Session *session, const MsgExecuted *executed)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL, err _cleanup_(buf_deinit) = BUF_NULL;
    MsgBetween between = {0};

    if (executed->has_between)
        between = executed->between;
    if (join(&out, between.out, executed->out) == 0 && join(&err, between.err, executed->err) == 0)
        body_encode(&session->last_words, MsgCloseReply,
                    (&(MsgCloseReply){.out = said(&out), .err = said(&err)}));
}
