/* Contents of a sandbox on their way to an archive. Nothing that the sandbox says is believed. */
#pragma once

#include "clients/c/saving/archive_writer.h"
#include "clients/c/saving/note_list.h"
#include "clients/c/tree.h"
#include "clients/c/tree_fetch.h"

#define SAVING_TOP "/session"

typedef struct Packing {
    LimpetClient *client;
    const char *session;
    ArchiveWriter archive;
    TreeProgress progress;
    TreeFetch fetch;
    NoteList skipped;
} Packing;

/* All of these: 0, -ENOMEM, or -EPROTO with the client's problem. */

/* Leaves in *ret_entries, which is to be freed, what of the list is saved; what cannot be is noted. */
int pack_select(Packing *packing, const LimpetEntries *list, LimpetEntry **ret_entries, size_t *ret_n);

/* Adds all of these. A file that cannot be read is noted. */
int pack_entries(Packing *packing, const LimpetEntry *entries, size_t n);

/* Adds a file of the sandbox in pieces, its holes left out; begun anew where another takes its place. */
int pack_file(Packing *packing, const char *path, const Member *member);
