/* Options of a command line: one table per command for parsing, --help and the man page. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/base/base.h"

typedef enum OptionType {
    OPTION_FLAG,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_NUMBER, /* double above 0 */
    OPTION_TTL,    /* double; 0 becomes LIMPET_FOREVER */
    OPTION_COUNT,  /* uint64_t above 0 */
    OPTION_LIST,   /* const char **, NULL at the end: the option may be given more than once */
} OptionType;

typedef struct Option {
    char letter; /* 0: none */
    const char *name;
    OptionType type;
    size_t offset;        /* of its value in the values of the command */
    const char *argument; /* as "SECONDS"; NULL for a flag */
    const char *help;
} Option;

#define OPTIONS_MAX 24

/* Moves the options of argv[1..] into `values`, which the caller zeroed, and reorders argv so that the
 * operands come last. The index of the first operand; OPTION_HELP when --help is given; -EINVAL after a
 * message on standard error. Values point into argv; options_deinit() frees what holds them. */
#define OPTION_HELP (-1000)
int options_parse(const Option *options, size_t n, void *values, int argc, char **argv);

void options_deinit(const Option *options, size_t n, void *values);

/* Calls `write` with each option's two columns, --help included: "-t, --timeout SECONDS" and its help. */
void options_describe(const Option *options, size_t n, void (*write)(const char *usage, const char *help));

/* Rows for the options of a container, whose values are the member `member` of type LimpetOptions. */
#define SANDBOX_OPTIONS(type, member)                                                                        \
    {0,           "memory",                                                                                  \
     OPTION_TEXT, offsetof(type, member.memory),                                                             \
     "SIZE",      "memory of the container, as 512m or 2g (default 1g)"},                                    \
        {0,                                                                                                  \
         "cpus",                                                                                             \
         OPTION_NUMBER,                                                                                      \
         offsetof(type, member.cpus),                                                                        \
         "NUMBER",                                                                                           \
         "processors, may be a fraction (default 1)"},                                                       \
        {0,                                                                                                  \
         "pids",                                                                                             \
         OPTION_COUNT,                                                                                       \
         offsetof(type, member.pids),                                                                        \
         "NUMBER",                                                                                           \
         "processes and threads (default 128)"},                                                             \
        {0,           "data",                                                                                \
         OPTION_TEXT, offsetof(type, member.data),                                                           \
         "DIRECTORY", "directory of the host, read-only at /data"},                                          \
        {0,                                                                                                  \
         "env",                                                                                              \
         OPTION_LIST,                                                                                        \
         offsetof(type, member.env),                                                                         \
         "NAME=VALUE",                                                                                       \
         "environment of the interpreter; may be given again"},                                              \
        {0,          "ttl",                                                                                  \
         OPTION_TTL, offsetof(type, member.ttl),                                                             \
         "SECONDS",  "an idle session ends after it; 0: never (default 3600)"},                              \
        {0,           "network",                                                                             \
         OPTION_TEXT, offsetof(type, member.network),                                                        \
         "KIND",      "none, or bridge or host where the configuration allows it (default none)"},           \
    {                                                                                                        \
        0, "image", OPTION_TEXT, offsetof(type, member.image), "IMAGE", "image of the container"             \
    }
