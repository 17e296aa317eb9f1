/* Contents of many small files of the sandbox, several in one message. */
#pragma once

#include "clients/c/client.h"

typedef struct TreeFetch TreeFetch;
struct TreeFetch {
    LimpetClient *client;
    const char *session, *top; /* the directory that the files are below */
    size_t skipped;            /* bytes of an entry's path before what is below it */
    /* Called for each, in order: `row` has its data; or `error`; or neither, where it has grown too large. */
    int (*found)(TreeFetch *fetch, const LimpetEntry *entry, const MsgFileEntry *row);
};

/* 0, or what `found` or the client said. */
int tree_fetch(TreeFetch *fetch, const LimpetEntry *files, size_t n);
