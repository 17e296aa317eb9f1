/* limpet_exec(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/program.h"
#include "clients/c/run.h"

static int begin(LimpetClient *client, RunCall *run_call, const LimpetExec *exec, char *run_id)
{
    MsgExec said = {
        .session = text_of(exec->session),
        .instance = text_of(exec->instance),
        .run_id = text_of(run_call->call.run_id),
        .timeout = exec->timeout == 0 ? NAN : exec->timeout,
        .stream = exec->on_output,
    };
    int r = 0;

    client->problem = PROBLEM_NULL;
    if (!exec->run_id)
        r = run_make_id(run_id, &client->problem);
    if (!r)
        r = program_say(&said.program, &exec->program, &client->problem);
    if (r < 0)
        return r;
    said.run_id = text_of(run_call->call.run_id);
    client_begin(client, &run_call->call, MSG_EXEC, MsgExec, &said);
    return 0;
}

int limpet_exec(LimpetClient *client, const LimpetExec *exec, LimpetResult **ret)
{
    char run_id[LIMIT_RUN_ID + 1] = "";
    const LimpetRun callbacks = {.on_output = exec->on_output, .context = exec->context};
    RunCall run_call = {
        .call = {.repeatable = true,
                 .run_id = exec->run_id ? exec->run_id : run_id,
                 .on_event = run_on_event},
        .run = &callbacks,
    };
    int r = begin(client, &run_call, exec, run_id);

    if (!r)
        r = run_wait(client, &run_call, ret);
    return client_result(client, r);
}
