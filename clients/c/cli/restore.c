#include "clients/c/cli/restore.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/python.h"

#define ARGUMENTS_MAX 512 /* options of which there may be many are environment variables: LIMIT_ENV */

typedef struct Arguments {
    char *all[ARGUMENTS_MAX];
    int n;
    bool failed;
} Arguments;

static void add(Arguments *arguments, const char *format, ...) _printf_(2, 3);

static void add(Arguments *arguments, const char *format, ...)
{
    char *argument = NULL;
    va_list values;

    va_start(values, format);
    if (arguments->n == ARGUMENTS_MAX || vasprintf(&argument, format, values) < 0)
        arguments->failed = true;
    else
        arguments->all[arguments->n++] = argument;
    va_end(values);
}

static void add_number(Arguments *arguments, const char *name, double value)
{
    if (value != 0)
        add(arguments, "%s=%.17g", name, value == LIMPET_FOREVER ? 0 : value);
}

static void add_count(Arguments *arguments, const char *name, uint64_t value)
{
    if (value > 0)
        add(arguments, "%s=%" PRIu64, name, value);
}

static void add_text(Arguments *arguments, const char *name, const char *value)
{
    if (value)
        add(arguments, "%s=%s", name, value);
}

static void add_list(Arguments *arguments, const char *name, const char *const *values)
{
    for (size_t i = 0; values && values[i]; i++)
        add(arguments, "%s=%s", name, values[i]);
}

#define ADD_SECONDS       add_number
#define ADD_NUMBER        add_number
#define ADD_COUNT         add_count
#define ADD_SIZE          add_text
#define ADD_CHOICE        add_text
#define ADD_TEXT          add_text
#define ADD_DIRECTORY     add_text
#define ADD_PAIRS         add_list
#define ADD_LIST          add_list
#define ADD_BINDINGS(...) /* the command has no option for them */

int restore(const char *file, const char *session, const LimpetOptions *options)
{
    Arguments arguments = {0};
    int r = EXIT_SANDBOX;

    add(&arguments, "restore");
    add(&arguments, "%s", file);
    add(&arguments, "%s", session);
#define SESSION_OPTION(name, kind, ...) ADD_##kind(&arguments, #name, options->name);
#include "proto/session_options.def"
    if (arguments.failed)
        fprintf(stderr, "limpet: there are too many options, or too little memory for them\n");
    else
        r = become_python("limpet._command", NULL, arguments.all, arguments.n);
    while (arguments.n > 0)
        free(arguments.all[--arguments.n]);
    return r;
}
