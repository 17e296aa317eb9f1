/* History of a session: its calls in the order in which they ended. */
#pragma once

#include "clients/c/client.h"
#include "clients/c/exporting/object.h"

typedef struct PastCall {
    uint64_t branch;
    char *line;                       /* of a command, as a cell has it; or NULL */
    Text code;                        /* absent: it is not known */
    const msgpack_object_map *record; /* or NULL */
    bool undone;                      /* its effects on the variables are gone */
} PastCall;

typedef struct PastCalls {
    PastCall *calls;
    size_t n, capacity;
    bool full;    /* later ones are missing */
    Reply *pages; /* memory of the calls */
    size_t n_pages;
    const char *const *own; /* the command by which an export asks, which is none of the session's */
} PastCalls;

/* 0 or negative, as client_call(). Either way past_calls_deinit() is called. */
int past_calls_read(PastCalls *past, LimpetClient *client, const char *session);
void past_calls_deinit(PastCalls *past);

/* Returns a value of the record of a call; NULL or absent where the record has none, or one of another
 * type. */
const msgpack_object *past_call_said(const PastCall *call, const char *key);
Text past_call_text(const PastCall *call, const char *key);
const msgpack_object_map *past_call_map(const PastCall *call, const char *key);
bool past_call_count(const PastCall *call, uint64_t *ret);

/* "python", "command", "bash", ... */
bool past_call_is(const PastCall *call, const char *kind);
