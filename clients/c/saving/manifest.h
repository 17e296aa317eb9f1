/* manifest.json: what an archive is, the options of the session, and what its variables were made with. */
#pragma once

#include "clients/c/saving/archive_reader.h"
#include "clients/c/saving/note_list.h"
#include "clients/c/saving/saved_index.h"
#include "proto/schema.h"

typedef struct ManifestFacts {
    Text session, engine;
    uint64_t execution_count;
    const msgpack_object_map *options; /* as the controller says them */
    const SavedIndex *index;
    const NoteList *skipped;
} ManifestFacts;

/* 0 or a negative errno. */
int manifest_write(Buf *to, const ManifestFacts *facts);

typedef struct Manifest {
    uint64_t execution_count;
    struct json_object *said;
    struct json_object *requirements; /* of what the session had installed; NULL: nothing */
    msgpack_unpacked unpacked;        /* memory of `options` */
    MsgOptions options;               /* options of a restored session unless others are given */
    Buf packed;
} Manifest;

/* Reads the first member, which is to be the manifest. 0, -ENOMEM, or -EPROTO with the problem. Either way
 * manifest_deinit() is called. */
int manifest_read(Manifest *ret, ArchiveReader *archive);
void manifest_deinit(Manifest *manifest);

/* Gives the options that are not given the values that were saved. */
void manifest_complete(const Manifest *manifest, MsgOptions *given);

/* Names the options that had let the session reach more, and are not given again. 0 or -ENOMEM. */
int manifest_note_not_granted(const Manifest *manifest, const MsgOptions *given, NoteList *notes);
