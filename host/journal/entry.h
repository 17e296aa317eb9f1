/* Entries of a journal. Pure.
 *
 *   session        before the container is made; the first of all. Once more when a container that waited
 *                  becomes somebody's: what comes before it counts no more
 *   ready          the session is open, perhaps again; before anyone is told. Of one that is being restored:
 *                  it is whole
 *   branch         one was made; before anyone is told
 *   branch_closed  it ended
 *   call           one ended, and this is its record; before anyone is told
 *   files          artifacts that were reported, in the batch of the call whose record has them
 *   packages       others are mounted in it; before anyone is told
 *   saved          it needs no container, until it is ready again
 *   closing        the session is about to end
 *   ended          how it did; in the file of its records alone (journal_ended.h)
 *
 * A record and options are kept as they are encoded elsewhere. Artifacts of /work are not kept: a container
 * that has it runs one call. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "proto/fields.h"

typedef enum EntryKind {
    ENTRY_SESSION,
    ENTRY_READY,
    ENTRY_BRANCH,
    ENTRY_BRANCH_CLOSED,
    ENTRY_CALL,
    ENTRY_FILES,
    ENTRY_CLOSING,
    ENTRY_ENDED,
    ENTRY_PACKAGES,
    ENTRY_SAVED,
    ENTRY_KINDS,
} EntryKind;

#define JOURNAL_INSTANCE_MAX 16u

/* A struct for each kind. Writers set `entry`. Text is not terminated; what a reader gets points into the
 * entry, and has no '\0' and no more bytes than there is room for elsewhere. */
#define SCHEMA_FILE "host/journal/journal.def"
#include "proto/schema/as_structs.h"

typedef struct JournalEntry {
    EntryKind kind;
    union {
        JournalSession session;
        JournalBranch branch; /* of ENTRY_BRANCH_CLOSED: the number alone */
        JournalCall call;
        const msgpack_object_array *files;
        Text packages;
        JournalSaved saved;
        JournalEnd end;
    };
    msgpack_unpacked unpacked;
} JournalEntry;

/* Returns the user of an entry. Earlier controllers had no users but their own. */
static inline uid_t journal_user(uint64_t said, uid_t own)
{
    return said == NO_UINT ? own : (uid_t)said;
}

/* 0, or -EPROTO with the problem set and nothing to deinitialise. */
int journal_entry_decode(JournalEntry *ret, const void *bytes, size_t size, Problem *problem);
void journal_entry_deinit(JournalEntry *entry);

/* Each appends an entry to a batch. 0, -ENOBUFS or -ENOMEM. */
int journal_write_session(Buf *batch, const JournalSession *session);
int journal_write_branch(Buf *batch, const JournalBranch *branch);
int journal_write_branch_closed(Buf *batch, uint64_t branch);
int journal_write_call(Buf *batch, const JournalCall *call);
int journal_write_files(Buf *batch, const Buf *files); /* one encoded array */
int journal_write_packages(Buf *batch, const char *packages);
int journal_write_saved(Buf *batch, const JournalSaved *saved);
int journal_write_end(Buf *batch, const JournalEnd *end);
int journal_write_plain(Buf *batch, EntryKind kind); /* ENTRY_READY, ENTRY_CLOSING */
