/* Bindings as the command line says them: --binding NAME=URL, and --header NAME='Header: value' for each
 * header. */
#pragma once

#include "clients/c/cli/cli.h"

/* Rows for the table of a command; its values have `bindings` and `headers` (const char *const *). */
#define BINDING_ROWS(values)                                                                                 \
    OPTION_ROW(0, "binding", OPTION_LIST, values, bindings, "NAME=URL",                                      \
               "http://NAME.limpet/ leads there; may be repeated", .completes = COMPLETE_NOTHING),           \
        OPTION_ROW(0, "header", OPTION_LIST, values, headers, "NAME=HEADER",                                 \
                   "header that the host adds, as 'api=Authorization: Bearer ${KEY}'; may be repeated",      \
                   .completes = COMPLETE_NOTHING)

/* NULL stays NULL. ${NAME} in a header is the environment's. EXIT_USAGE after a message when something is
 * malformed, names no binding, or is not set. */
int bindings_read(const char *const *bindings, const char *const *headers, LimpetBinding **ret);
LimpetBinding *bindings_free(LimpetBinding *bindings);
DEFINE_CLEANUP(LimpetBinding *, bindings_free);
