/* Entries of a list of files, gathered from the pages of several replies. */
#pragma once

#include "clients/c/client.h"

typedef struct EntryList {
    LimpetEntries entries; /* the caller's view */
    LimpetEntry *space;
    size_t capacity;
    msgpack_zone *zone;
} EntryList;

/* NULL when out of memory. */
EntryList *entry_list_new(void);
EntryList *entry_list_free(EntryList *list);
DEFINE_CLEANUP(EntryList *, entry_list_free);

/* Adds one that the controller said. 0 or -ENOMEM. */
int entry_list_add(EntryList *list, const MsgFileEntry *said);

/* All are there: sorts them by path. */
LimpetEntries *entry_list_end(EntryList *list);
