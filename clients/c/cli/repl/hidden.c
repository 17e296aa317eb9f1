#include "clients/c/cli/repl/hidden.h"

#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"

#define TIMEOUT 3.0 /* seconds: __dir__ and __getattr__ of somebody's objects run */

bool hidden_session_idle(LimpetClient *client, const char *session)
{
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;
    size_t size = strlen(session);
    bool found = false;

    if (limpet_sessions(client, &list))
        return false;
    for (size_t i = 0; i < list->n_sessions; i++) {
        const LimpetSession *s = &list->sessions[i];

        if (strncmp(s->session, session, size) != 0 || (s->session[size] && s->session[size] != '/'))
            continue;
        if (strcmp(s->status, "idle") != 0)
            return false;
        found = true;
    }
    return found;
}

bool hidden_idle(Repl *repl)
{
    return !repl->gone && hidden_session_idle(repl->client, repl->origin);
}

char *hidden_run(Repl *repl, const char *code)
{
    _cleanup_(limpet_result_freep) LimpetResult *result = NULL;
    LimpetRun run = {
        .session = repl->session,
        .instance = *repl->instance ? repl->instance : NULL,
        .code = code,
        .timeout = TIMEOUT,
    };

    if (!hidden_idle(repl) || limpet_run(repl->client, &run, &result))
        return NULL;
    show_state(result);
    return result->status == LIMPET_OK ? strdup(result->stdout_text) : NULL;
}
