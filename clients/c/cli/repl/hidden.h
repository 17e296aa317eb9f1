/* Hidden: what the prompt asks for while somebody types. Code of ours is one more call of the session, made
 * only while it is idle; it leaves nothing in the namespace. What it answers is data of the sandbox. */
#pragma once

#include "clients/c/cli/repl/repl.h"

/* Returns whether a question would be answered at once, without waiting for a call of somebody else or for a
 * controller. */
bool hidden_idle(Repl *repl);

/* The same of any session, by its name, with all its branches: calls of one container run one at a time. */
bool hidden_session_idle(LimpetClient *client, const char *session);

/* Returns what the code prints, to be freed; NULL when it cannot be had now, or the code failed. */
char *hidden_run(Repl *repl, const char *code);
