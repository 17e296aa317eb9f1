/* The rows of the commands' tables of options. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/option.h"

/* Words that a shell may complete in the place of an argument or operand. */
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
