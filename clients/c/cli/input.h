/* input() and getpass() of code in a session, answered by who sits at the terminal, or from a pipe. */
#pragma once

#include <stdbool.h>

/* A LimpetRun's on_input: shows the prompt, reads a line of standard input and no more than that. */
char *input_answer(void *context, const char *prompt, bool secret);
