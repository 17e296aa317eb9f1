#include <stdio.h>

#include "host/record.h"
#include "host/sandbox_parts.h"

static RecordHead record_head(const Call *call)
{
    const Session *session = call->turn.session;

    return (RecordHead){
        .run_id = call->run_id,
        .session = session->sandbox->ephemeral ? NULL : session->name,
        .engine = session->controller->engine->ops->name,
        .execution_count = session->execution_count,
        .epoch = session->epoch,
    };
}

void sandbox_end_bare(Call *call, const char *status, const char *state, const char *name,
                      const char *message)
{
    RecordHead head = record_head(call);
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;

    if (record_write_bare(&record, &head, status, state, name, message) == 0) {
        call_end(call, &record);
        return;
    }
    problem_set(&problem, ERR_INTERNAL, "out of memory");
    call_fail(call, &problem);
}

static int send_execute(Sandbox *sandbox, Call *call)
{
    const MsgExecute execute = {
        .branch = call->turn.session->branch,
        .code = {call->code, call->code_size},
        .code_hash = call->code_hash,
        .timeout = call->timeout,
        .stream = call->stream,
        .run_id = text_of(call->run_id),
        .on_error = text_of(call->rolls_back ? "rollback" : "keep"),
        .asks = text_of(asks_name(call->asks.mode)),
    };

    call->turn.number = sandbox_next_number(sandbox->controller);
    return guest_say(sandbox->guest, MSG_EXECUTE, call->turn.number, MsgExecute, &execute);
}

void sandbox_start_call(Sandbox *sandbox, Call *call)
{
    if (send_execute(sandbox, call) < 0)
        sandbox_close(sandbox, "its supervisor cannot be reached");
    else
        free(take(call->code));
}

void sandbox_grant(Sandbox *sandbox, const Call *call, unsigned count)
{
    if (count > 0)
        guest_say(sandbox->guest, MSG_CREDIT, call->turn.number, MsgCredit, &(MsgCredit){.count = count});
}

/* Whether the kernel has killed for memory since it was last asked. */
static bool has_killed(Sandbox *sandbox)
{
    uint64_t bytes, kills, before = sandbox->oom_kills;

    if (sandbox->controller->engine->ops->memory(sandbox->container, &bytes, &kills) < 0)
        return false;
    sandbox->oom_kills = kills;
    return kills > before;
}

/* A call that lived on may have lost processes of its own to the kernel, which the next one is not to be
 * blamed for. In less than this no process fills the least memory a session has. */
#define FILLING_SECONDS 0.005

/* The running call, which is not that any more. */
static Call *take_running(Sandbox *sandbox)
{
    Call *call = sandbox_running_call(sandbox);

    sandbox_set_running(sandbox, NULL);
    return call;
}

void sandbox_fail_call(Sandbox *sandbox, const Problem *problem)
{
    Call *call = take_running(sandbox);
    Session *session = call->turn.session;

    call_fail(call, problem);
    sandbox_turn_over(sandbox, session);
}

void sandbox_finish_call(Sandbox *sandbox, const MsgExecuted *executed, const ArtifactList *artifacts)
{
    Call *call = take_running(sandbox);
    Session *session = call->turn.session;
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    RecordHead head = record_head(call);

    if (record_write(&record, &head, executed, record_was_killed(executed) && has_killed(sandbox),
                     artifacts) == 0) {
        call_end(call, &record);
        if (executed->duration > FILLING_SECONDS)
            has_killed(sandbox);
    } else {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        call_fail(call, &problem);
    }
    sandbox_turn_over(sandbox, session);
}

void sandbox_lose_call(Call *call, bool ran, const char *reason)
{
    char message[512];

    snprintf(message, sizeof(message), "the session ended while the call %s: %s; its variables are lost",
             ran ? "ran" : "waited", reason);
    sandbox_end_bare(call, "failed", "lost", "SandboxLost", message);
}
