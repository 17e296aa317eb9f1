/* Table: rows of text, printed in columns as wide as their longest cell. */
#pragma once

#include <stdio.h>

#include "proto/base/base.h"

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
