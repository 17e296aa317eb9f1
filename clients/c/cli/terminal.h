/* Terminal: Ctrl-C while code runs, which interrupts the code and not this program; output of code, and who
 * reads it; and questions of code, answered by who sits there, or from a pipe. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "clients/c/limpet.h"

/* From now on SIGINT interrupts the call of the client that runs or comes next; with `once` a second one ends
 * this program. Where SIGINT is ignored, as in a background job, it stays so. */
void sigint_catch(LimpetClient *client, bool once);

/* As it was before. */
void sigint_release(void);

/* Writes output of the client's call. When nobody reads it any more, as behind `head`, the call ends as by
 * Ctrl-C. */
void output_write(LimpetClient *client, FILE *file, const char *bytes, size_t size);

/* Ends this program as SIGPIPE does, if nobody read such output to its end. */
void output_end(void);

/* Returns whether somebody reads it. */
bool output_is_read(void);

/* A LimpetRun's on_input: shows the prompt, reads a line of standard input and no more than that. */
char *input_answer(void *context, const char *prompt, bool secret);
