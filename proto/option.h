/* Options: tables from which come the reading of texts, their checks, --help and man pages.
 *
 * A row says where in a struct of values its value is. The owner of the struct clears it to zero at first;
 * what rows store there belongs to the struct until option_table_clear(). Texts come from configuration
 * files, the environment and command lines; a Problem names the option as its author wrote it. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/problem.h"

typedef enum OptionType {
    OPTION_FLAG,      /* bool; has no argument */
    OPTION_TEXT,      /* char * */
    OPTION_CHOICE,    /* char *, one of the words of `choices` */
    OPTION_DIRECTORY, /* char * */
    OPTION_NUMBER,    /* double */
    OPTION_SECONDS,   /* double */
    OPTION_COUNT,     /* uint64_t */
    OPTION_SIZE,      /* uint64_t: bytes, or as "512m" */
    OPTION_PAIRS,     /* char **, NULL at the end: NAME=VALUE as often as it is given */
    OPTION_LIST,      /* char **, NULL at the end: text as often as it is given */
    OPTION_BINDINGS,  /* of sessions: no text says it */
} OptionType;

/* The least number above 0, as a bound that leaves 0 out. */
#define OPTION_ABOVE_ZERO 4.9406564584124654e-324

typedef struct Option {
    char letter;      /* 0: none */
    const char *name; /* on the command line `_` is written `-`, and capitals in the environment */
    OptionType type;
    size_t offset;        /* of its value in the struct of values */
    double least, most;   /* of a number; most 0: no bound */
    double zero;          /* stored for a number 0 where the struct's own 0 says that nothing was given */
    const char *argument; /* as "SECONDS" */
    const char *help;     /* NULL: it is not told of */
    const char *value;    /* its default, as one would write it; NULL or "": none */
    const char *choices;  /* "one|two|three" */
    unsigned completes;   /* meaning of its argument to a completer of command lines */
} Option;

typedef struct OptionTable {
    const Option *rows;
    size_t n;
} OptionTable;

#define OPTION_ROWS_MAX 64

/* Stores what a text says; `called` is how its author wrote the option's name. */
int option_set(const Option *option, void *values, const char *called, const char *text, Problem *problem);

/* Refuses a stored number that is out of range. */
int option_check(const Option *option, const void *values, Problem *problem);

/* "--start-timeout" and "LIMPET_START_TIMEOUT" */
void option_flag(const Option *option, char *ret, size_t size);
void option_variable(const Option *option, char *ret, size_t size);

/* NULL when there is none. */
const Option *option_table_find(const OptionTable *table, const char *name);

int option_table_defaults(const OptionTable *table, void *values, Problem *problem);
int option_table_environment(const OptionTable *table, void *values, Problem *problem);

/* Takes the options out of argv[1..] and reorders it so that the operands come last. The index of the first
 * operand; OPTION_HELP at --help or -h, which every table has; negative after a problem. */
#define OPTION_HELP (-1000)
int option_table_arguments(const OptionTable *table, void *values, int argc, char **argv, Problem *problem);

void option_table_clear(const OptionTable *table, void *values);

/* Calls `write` with the two columns of each row that is told of. */
void option_table_describe(const OptionTable *table,
                           void (*write)(void *out, const char *usage, const char *help), void *out);
