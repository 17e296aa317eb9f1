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

/* What a shell may complete in the place of an argument or operand. */
typedef enum Completes {
    COMPLETE_NOTHING,
    COMPLETE_SESSION,
    COMPLETE_CHECKPOINT, /* of the session that is named on the line */
    COMPLETE_BRANCH,     /* likewise */
    COMPLETE_FILE,
    COMPLETE_DIRECTORY,
    COMPLETE_SESSION_PATH, /* SESSION: */
    COMPLETE_COMMAND,
    COMPLETE_CHOICE, /* one of `choices` */
} Completes;

typedef struct Option {
    char letter; /* 0: none */
    const char *name;
    OptionType type;
    size_t offset;        /* of its value in the values of the command */
    const char *argument; /* as "SECONDS"; NULL for a flag */
    const char *help;
    Completes completes; /* as its argument */
    const char *choices; /* "one two three" */
} Option;

#define OPTIONS_MAX 26

/* Moves the options of argv[1..] into `values`, which the caller zeroed, and reorders argv so that the
 * operands come last. The index of the first operand; OPTION_HELP when --help is given; -EINVAL after a
 * message on standard error. Values point into argv; options_deinit() frees what holds them. */
#define OPTION_HELP (-1000)
int options_parse(const Option *options, size_t n, void *values, int argc, char **argv);

void options_deinit(const Option *options, size_t n, void *values);

/* Calls `write` with each option's two columns, --help included: "-t, --timeout SECONDS" and its help. */
void options_describe(const Option *options, size_t n, void (*write)(const char *usage, const char *help));

/* A row of a table. What follows the help, if anything, is what a shell completes: .completes, .choices. */
#define OPTION_ROW(letter_, name_, kind, values, member, argument_, help_, ...)                              \
    {                                                                                                        \
        .letter = (letter_), .name = (name_), .type = (kind), .offset = offsetof(values, member),            \
        .argument = (argument_), .help = (help_), __VA_ARGS__                                                \
    }

/* Rows for the options of a container, whose values are the member `m` of type LimpetOptions. */
#define SANDBOX_OPTIONS(v, m)                                                                                \
    OPTION_ROW(0, "memory", OPTION_TEXT, v, m.memory, "SIZE",                                                \
               "memory of the container, as 512m or 2g (default 1g)"),                                       \
        OPTION_ROW(0, "cpus", OPTION_NUMBER, v, m.cpus, "NUMBER",                                            \
                   "processors, may be a fraction (default 1)"),                                             \
        OPTION_ROW(0, "pids", OPTION_COUNT, v, m.pids, "NUMBER", "processes and threads (default 128)"),     \
        OPTION_ROW(0, "disk", OPTION_TEXT, v, m.disk, "SIZE",                                                \
                   "what /session may hold, as 512m or 2g (default 1g)"),                                    \
        OPTION_ROW(0, "files", OPTION_COUNT, v, m.files, "NUMBER",                                           \
                   "files, directories and links in /session (default 100000)"),                             \
        OPTION_ROW(0, "data", OPTION_TEXT, v, m.data, "DIRECTORY",                                           \
                   "directory of the host, read-only at /data", .completes = COMPLETE_DIRECTORY),            \
        OPTION_ROW(0, "env", OPTION_LIST, v, m.env, "NAME=VALUE",                                            \
                   "environment of the interpreter; may be given again"),                                    \
        OPTION_ROW(0, "ttl", OPTION_TTL, v, m.ttl, "SECONDS",                                                \
                   "an idle session ends after it; 0: never (default 3600)"),                                \
        OPTION_ROW(0, "network", OPTION_TEXT, v, m.network, "KIND",                                          \
                   "none, or bridge or host where the configuration allows it (default none)",               \
                   .completes = COMPLETE_CHOICE, .choices = "none bridge host"),                             \
        OPTION_ROW(0, "image", OPTION_TEXT, v, m.image, "IMAGE", "image of the container"),                  \
        OPTION_ROW(0, "checkpoint", OPTION_TEXT, v, m.checkpoint, "WHEN",                                    \
                   "checkpoints by themselves: auto, always (before every call) or off (default auto)",      \
                   .completes = COMPLETE_CHOICE, .choices = "auto always off")
