/* Small files, directories and links on their way into the sandbox, many in a message. */
#pragma once

#include "clients/c/tree.h"

typedef struct TreeStore {
    LimpetClient *client;
    const char *session, *top; /* the directory that they will be below */
    TreeProgress *progress;    /* is told of bytes that are there */
    Buf rows;                  /* of the message under way, encoded */
    uint32_t n_rows;
    size_t n_bytes;
} TreeStore;

/* Sends what was added before where the row has no room beside it. Its path is below the top. */
int tree_store_add(TreeStore *store, const MsgFileEntry *row);

/* Sends the rest. */
int tree_store_end(TreeStore *store);
void tree_store_deinit(TreeStore *store);
