/* The rows of the commands' tables of options. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/option.h"

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

/* A row of a table. Any more members follow the help: .value, .least, .completes, .choices. */
#define OPTION_ROW(letter_, name_, kind, values, member, argument_, help_, ...)                              \
    {                                                                                                        \
        .letter = (letter_), .name = (name_), .type = (kind), .offset = offsetof(values, member),            \
        .argument = (argument_), .help = (help_), __VA_ARGS__                                                \
    }

/* Rows for the options of a container, whose values are the member `m` of type LimpetOptions. What they may
 * be is for the controller to say: here a number is above 0, for 0 is what was not given. */
#define SANDBOX_OPTIONS(v, m)                                                                                \
    OPTION_ROW(0, "memory", OPTION_TEXT, v, m.memory, "SIZE", "memory of the container, as 512m or 2g",      \
               .value = "1g"),                                                                               \
        OPTION_ROW(0, "cpus", OPTION_NUMBER, v, m.cpus, "NUMBER", "processors, may be a fraction",           \
                   .least = OPTION_ABOVE_ZERO, .value = "1"),                                                \
        OPTION_ROW(0, "pids", OPTION_COUNT, v, m.pids, "NUMBER", "processes and threads",                    \
                   .least = OPTION_ABOVE_ZERO, .value = "128"),                                              \
        OPTION_ROW(0, "disk", OPTION_TEXT, v, m.disk, "SIZE", "what /session may hold, as 512m or 2g",       \
                   .value = "1g"),                                                                           \
        OPTION_ROW(0, "files", OPTION_COUNT, v, m.files, "NUMBER",                                           \
                   "files, directories and links in /session", .least = OPTION_ABOVE_ZERO,                   \
                   .value = "100000"),                                                                       \
        OPTION_ROW(0, "data", OPTION_TEXT, v, m.data, "DIRECTORY",                                           \
                   "directory of the host, read-only at /data", .completes = COMPLETE_DIRECTORY),            \
        OPTION_ROW(0, "env", OPTION_PAIRS, v, m.env, "NAME=VALUE",                                           \
                   "environment of the interpreter; may be given again"),                                    \
        OPTION_ROW(0, "ttl", OPTION_SECONDS, v, m.ttl, "SECONDS", "an idle session ends after it; 0: never", \
                   .zero = LIMPET_FOREVER, .value = "3600"),                                                 \
        OPTION_ROW(0, "network", OPTION_TEXT, v, m.network, "KIND",                                          \
                   "none, or bridge or host where the configuration allows it", .value = "none",             \
                   .completes = COMPLETE_CHOICE, .choices = "none|bridge|host"),                             \
        OPTION_ROW(0, "image", OPTION_TEXT, v, m.image, "IMAGE", "image of the container"),                  \
        OPTION_ROW(0, "checkpoint", OPTION_TEXT, v, m.checkpoint, "WHEN",                                    \
                   "checkpoints by themselves: auto, always (before every call) or off", .value = "auto",    \
                   .completes = COMPLETE_CHOICE, .choices = "auto|always|off")
