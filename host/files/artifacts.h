/* Artifacts: what sandboxed code leaves in a directory, reported once and published as copies that it cannot
 * reach. The directory and everything below it is hostile and live; see beneath.h.
 *
 * After each call the session asks artifacts_dirty(), which costs one system call when nothing has happened,
 * and only then has a worker thread look: artifacts_publish(). A file is reported by the first publication
 * after it was created or changed. Two kinds of change may be noticed only with the next one: through a
 * memory mapping that stays, and through a hard link that was made outside the directory or is gone again. */
#pragma once

#include "host/files/artifact_list.h"
#include "host/files/index.h"
#include "host/files/publish.h"
#include "host/files/watch.h"
#include "host/files/worker.h"

typedef struct FinderLimits {
    unsigned depth;     /* directories within each other */
    size_t directories; /* watched at once */
    size_t entries;     /* looked at in one scan, and known at once */
    size_t path_bytes;  /* of all known paths together */
    uint64_t scan_nsec; /* for one collection */
} FinderLimits;

/* Finder: which files below a directory may have been created or changed since it was last asked.
 *
 * Normally inotify says so. Where it cannot (events lost, a directory moved, too many directories, no
 * instance left, files with several names, of which events name only one), everything is looked at, within
 * limits of time, depth and number. Either way the answer is the index's pending entries. */
typedef struct Finder {
    int root; /* handle on the directory, the caller's */
    const FinderLimits *limits;
    Index index;
    Watch watch;
    unsigned watches; /* watches so far, times without one counted too */
    bool scan;        /* the next collection looks at everything */
    bool unwatchable; /* more directories than can be watched */
    bool linked;      /* files with several names */
    bool incomplete;  /* the last collection did not see everything */
    size_t looked_at; /* entries, in this collection */
    uint64_t deadline;
} Finder;

typedef struct ArtifactLimits {
    FinderLimits finder;
    PublishLimits publish;
} ArtifactLimits;

extern const ArtifactLimits artifact_limits_default;

typedef struct Artifacts Artifacts;

/* Watches `root_dir`, which sandboxed code sees as `prefix`. Copies go to `publish_dir`, which is made when
 * it is missing (not its parents) and belongs to this Artifacts alone. Both are held open from now on. Files
 * that are there already count as new. 0 or a negative errno. */
int artifacts_new(Artifacts **ret, const char *root_dir, const char *prefix, const char *publish_dir);

/* Lets a task that has begun end by itself and begins no other; each one's callback is still called, later.
 * The memory goes with the last of them. */
Artifacts *artifacts_free(Artifacts *artifacts);
DEFINE_CLEANUP(Artifacts *, artifacts_free);

/* Before the first publication. `limits` outlives the Artifacts. */
void artifacts_set_limits(Artifacts *artifacts, const ArtifactLimits *limits);

/* Before the first publication: the copies may take as much as a disk of that size, together with those of
 * earlier lives that are there. */
void artifacts_set_room(Artifacts *artifacts, uint64_t bytes, uint64_t files);

/* Returns whether there may be something to publish. */
bool artifacts_dirty(const Artifacts *artifacts);

/* Returns a descriptor that polls readable when the directory has events, for callers that poll it
 * themselves; -1 while there is none. It stays the finder's, and *ret_number changes when it is replaced. Not
 * while a publication is under way. */
int artifacts_watch(const Artifacts *artifacts, unsigned *ret_number);

/* Finds, on this thread, for a directory that no cell has filled yet: a call that leaves nothing there is
 * then not dirty, though it be the first. Leaves one that holds much to the first publication. */
void artifacts_look(Artifacts *artifacts);

/* `list` is the callee's, and may be NULL. The Artifacts may be gone by then. */
typedef void (*ArtifactsDone)(void *userdata, ArtifactList *list);

/* Finds and publishes on a worker thread, after what was asked for before, then calls `done` on the loop
 * thread. 0, or a negative errno; `done` is then not called. */
int artifacts_publish(Artifacts *artifacts, Worker *worker, ArtifactsDone done, void *userdata);

/* Hands `put` all that was reported, for the process after this one: see index.h. Not while a publication
 * is under way: -EBUSY. */
int artifacts_write_baseline(Artifacts *artifacts, bool all, int (*put)(void *userdata, const Buf *files),
                             void *userdata);

/* Before the first publication. */
void artifacts_read_baseline(Artifacts *artifacts, const msgpack_object_array *files);

/* Counts all that is there now as reported, without publishing it: files that were put there, not made by a
 * call. Like artifacts_publish() otherwise, with no list. */
int artifacts_accept(Artifacts *artifacts, Worker *worker, ArtifactsDone done, void *userdata);
