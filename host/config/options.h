/* The options of limpetd: one table (options.def) for file, command line, environment, help and man page. */
#pragma once

#include <stdio.h>

#include "proto/base/base.h"
#include "proto/base/problem.h"

typedef char *OptionTEXT;   /* owned by the Options */
typedef char *OptionCHOICE; /* likewise; one of those that its argument lists */
typedef double OptionSECONDS;
typedef double OptionNUMBER;
typedef uint64_t OptionSIZE; /* bytes */
typedef uint64_t OptionCOUNT;

typedef struct Options {
#define OPTION(name, type, value, least, most, argument, help) Option##type name;
#include "host/config/options.def"
#undef OPTION
} Options;

/* Actions that a command line can ask for besides options. */
typedef enum Action {
    ACTION_SERVE,
    ACTION_DETACH,
    ACTION_CHECK,
    ACTION_EGRESS,
    ACTION_HELP,
    ACTION_MAN,
    ACTION_VERSION,
} Action;

/* Defaults, then the config file, then the environment, then the command line. Problems name the source. */
int options_load(Options *options, int argc, char **argv, Action *ret_action, Problem *problem);
void options_deinit(Options *options);

/* The environment of a helper that has the same options: variables of all of them, then our own. Only the
 * list is the caller's, and lives as long as the process. NULL: no memory. */
char **options_environment(const Options *options);
/* Reads them there, and nothing else. */
int options_inherit(Options *options, Problem *problem);

void options_print_help(FILE *out);
void options_print_man(FILE *out);
