/* variables.json: what the sandbox says of the variables that it has saved. */
#pragma once

#include "clients/c/limpet_saving.h"
#include "clients/c/saving/json_read.h"

typedef struct SavedIndex {
    struct json_object *said; /* the whole, of which the others are parts */
    struct json_object *packages, *skipped;
    struct json_object
        *requirements; /* of what the session has installed; NULL: an older image does not tell */
    Text python;
    LimpetSavedVariable *variables;
    size_t n_variables;
} SavedIndex;

#define SAVED_INDEX_NULL ((SavedIndex){0})

/* 0, -ENOMEM, or -EPROTO with the problem: sandboxed code may have written it. */
int saved_index_read(SavedIndex *ret, const void *bytes, size_t size, Problem *problem);
void saved_index_deinit(SavedIndex *index);
