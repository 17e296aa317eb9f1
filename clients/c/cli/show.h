/* Output that several commands, and the prompt of `limpet repl`, print alike: tables, and tracebacks in
 * colours. */
#pragma once

#include <stdio.h>

#include "clients/c/limpet.h"
#include "proto/base/base.h"

/* ---- a table: rows of text, in columns as wide as their longest cell ---- */

typedef struct Column {
    const char *title;
    bool right; /* numbers stand at the right */
} Column;

#define COLUMNS_MAX 8

typedef struct Table {
    const Column *columns;
    size_t n_columns;
    size_t widths[COLUMNS_MAX];
    char **cells;
    size_t n_cells;
    bool failed;
} Table;

/* Adds the next cell, from left to right and from top to bottom. Its text may come from the sandbox. */
void table_add(Table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* EXIT_SANDBOX after a message when memory was short; 0 otherwise. Nothing is left to free. */
int table_print(Table *table);

/* ---- colours, on a terminal that has them; NO_COLOR in the environment, if not empty, forbids them ---- */

/* A traceback of Python, with a line end; its parts in colours where they are wanted. */
void colour_traceback(FILE *file, const char *traceback);

/* ---- what the commands show ---- */

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
