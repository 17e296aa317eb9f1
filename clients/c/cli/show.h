/* Output that several commands, and the prompt of `limpet repl`, print alike. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/base/base.h"

/* Tables on standard output. EXIT_SANDBOX after a message when memory was short. */
int show_variables(const LimpetNamespace *names);
int show_checkpoints(const LimpetCheckpoints *list);

/* Prints one line on standard output, and notes on standard error. */
void show_taken(const LimpetTaken *taken);
void show_rollback(const char *session, const LimpetRollback *back);

/* Tells, on standard error, if the variables are not as the code left them. */
void show_state(const LimpetResult *result);

/* The files that the call made, as "container path → host path", and those that were not published; on
 * standard error. */
void show_files(const LimpetResult *result);

/* The error of a call: its traceback, in colours where standard error is a terminal that has them, and a line
 * with the status where the traceback alone does not say all; on standard error. */
void show_error(const LimpetResult *result);
