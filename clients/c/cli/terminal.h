/* Terminal: Ctrl-C while code runs, which interrupts the code and not this program; and questions of code,
 * answered by who sits there, or from a pipe. */
#pragma once

#include <stdbool.h>

#include "clients/c/limpet.h"

/* From now on SIGINT interrupts the call of the client that runs or comes next; with `once` a second one ends
 * this program. Where SIGINT is ignored, as in a background job, it stays so. */
void sigint_catch(LimpetClient *client, bool once);

/* As it was before. */
void sigint_release(void);

/* A LimpetRun's on_input: shows the prompt, reads a line of standard input and no more than that. */
char *input_answer(void *context, const char *prompt, bool secret);
