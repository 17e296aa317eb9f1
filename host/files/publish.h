/* Publishing: copying what a Finder found into a directory that only the controller writes. */
#pragma once

#include "host/files/artifact_list.h"
#include "host/files/index.h"
#include "host/files/room.h"
#include "host/files/tree.h"

typedef struct PublishLimits {
    uint64_t file_bytes; /* one file */
    uint64_t call_bytes; /* all files of one call */
    size_t call_files;
    size_t list_entries; /* skipped ones included; more are only counted */
} PublishLimits;

typedef struct Publisher {
    int root;                /* handle on the directory of the originals */
    const char *prefix;      /* its path in the container */
    int target;              /* handle on the directory of the copies, used by one Publisher at a time */
    const char *target_path; /* its path on the host */
    const PublishLimits *limits;
    ArtifactList *list; /* of found files, each added to it */
    Index *index;
    Room *room; /* of the directory of the copies; NULL: not bounded */

    Copier copier;
    uint64_t bytes; /* copied */
    size_t files;
} Publisher;

int publisher_init(Publisher *publisher); /* the fields above `copier` are set; 0 or -ENOMEM */
void publisher_deinit(Publisher *publisher);

/* Removes what a publication that was broken off has left in a directory of copies. */
void publish_clean(int target);

/* Looks at every pending entry of the index: publishes it, reports why not, or finds that nothing has
 * changed. An entry that could not be settled yet stays pending for the next call. */
void publish_pending(Publisher *publisher);
