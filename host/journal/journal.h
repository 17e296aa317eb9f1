/* Journal: the file in which a controller leaves what the next one must know of a sandbox, should it be
 * killed. Nothing is synced: what a killed process has written stays, and a crash of the machine takes the
 * containers with it anyway.
 *
 *   header   8 bytes, with the version
 *   batch    size (4 bytes, big endian), then that many bytes of entries: what was appended at once, which
 *            counts as a whole or not at all
 *   entry    size (4 bytes, big endian), then one msgpack map (below)
 *
 * Everything in it can be written anew from what the controller knows: that is done when the file has grown
 * to more than four times what is live, and when something could not be written, as soon as there is room.
 * Until then the file has what came before, whole, and what there was room for since. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/fields.h"

/* ---- records: bytes behind their size (4 bytes, big endian) ---- */

#define RECORD_HEAD 4u

/* Begins a record at the end of a buffer, and ends the one that begins at `begin`: what came since is in it.
 * 0, -ENOBUFS or -ENOMEM, and the buffer ends before the record. */
int record_begin(Buf *buf);
int record_end(Buf *buf, size_t begin);
size_t record_size(const uint8_t *head);

/* Appends records to a file that has *size bytes. What was written in part is taken back, since nothing
 * behind it could be read; where that fails the file is closed. 0 or a negative errno. */
int record_append(int *fd, uint64_t *size, const Buf *records);

/* ---- the journal ---- */

/* Ending of the names of journals. */
#define JOURNAL_SUFFIX ".journal"

typedef struct Journal Journal;

/* Writes everything that is live with journal_put. 0 or a negative errno: it cannot be done now. */
typedef int (*JournalSnapshot)(Journal *journal, void *userdata);

struct Journal {
    char *path; /* NULL: none is kept */
    int fd;     /* -1: there is no file */
    bool lost;  /* something is missing in it, and that was said */
    bool retry; /* to be written after all, which was not tried yet */
    bool stale; /* the file is not all that was live, or too much: a snapshot takes nothing over from it */
    uint64_t size;
    uint64_t rewrite_size; /* bytes before which it is written anew */
    JournalSnapshot snapshot;
    void *userdata;
};

#define JOURNAL_NULL ((Journal){.fd = -1})

/* Keeps a journal at `path` from now on and writes what is live. A failure is logged and not the caller's: it
 * costs what a killed controller would have left, and is tried again. -ENOMEM without a path. */
int journal_open(Journal *journal, const char *path, JournalSnapshot snapshot, void *userdata);

/* Appends a batch that says what the snapshot says already, too. */
void journal_append(Journal *journal, Buf *batch);

/* Goes on with the journal of an earlier controller, of which the first `size` bytes make sense. */
int journal_resume(Journal *journal, const char *path, uint64_t size, JournalSnapshot snapshot,
                   void *userdata);

/* Writes it anew: for what could not be made a batch. */
void journal_refresh(Journal *journal);

/* From within a snapshot. */
int journal_put(Journal *journal, Buf *batch);

/* The file is left to the next controller. */
void journal_leave(Journal *journal);
void journal_remove(Journal *journal);

/* Calls `entry` for each entry of all whole batches until it returns a negative errno: the rest is not looked
 * at. Returns the size of the bytes that made sense; 0 when not even the header does. */
size_t journal_parse(const void *bytes, size_t size,
                     int (*entry)(void *userdata, const void *bytes, size_t size), void *userdata);

/* The same for a file. 0 or a negative errno. */
int journal_read(const char *path, int (*entry)(void *userdata, const void *bytes, size_t size),
                 void *userdata, uint64_t *ret_size);

/* ---- entries ----
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
 *   ended          how it did; in the file of its records alone (ended.h)
 *
 * A record and options are kept as they are encoded elsewhere. Artifacts of /work are not kept: a container
 * that has it runs one call. */
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

/* Each appends an entry to a batch, which is empty at first. 0, -ENOBUFS or -ENOMEM. */
int journal_write_session(Buf *batch, const JournalSession *session);
int journal_write_branch(Buf *batch, const JournalBranch *branch);
int journal_write_branch_closed(Buf *batch, uint64_t branch);
int journal_write_call(Buf *batch, const JournalCall *call);
int journal_write_files(Buf *batch, const Buf *files); /* one encoded array */
int journal_write_packages(Buf *batch, const char *packages);
int journal_write_saved(Buf *batch, const JournalSaved *saved);
int journal_write_end(Buf *batch, const JournalEnd *end);
int journal_write_plain(Buf *batch, EntryKind kind);                /* ENTRY_READY, ENTRY_CLOSING */
int journal_write_copy(Buf *batch, const void *bytes, size_t size); /* an entry of another file */
