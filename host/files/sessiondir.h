/* The directories of one session below the controller's state directory:
 *
 *   sessions/ID/disk         an image of the file system that the next two are on; not where there is none
 *   sessions/ID/files        /session in the container: sticky and writable by all in it, with
 *   sessions/ID/files/artifacts   the same, and
 *   sessions/ID/files/.limpet     ours alone
 *   sessions/ID/scratch      tmp, home and work: /tmp, /home/user and, of an ephemeral one, /work, with
 *                            work/artifacts; data: /data, which only clients write to, with .limpet
 *   sessions/ID/artifacts    published copies of a pinned session; they stay
 *   sessions/ID/checkpoints  copies of files (snapshot.h)
 *   sessions/ID/journal      what another process needs to know of it
 *   outputs/ID               published copies of an ephemeral one, in `session` and `work`; they stay
 *   removed                  what is being removed
 *
 * Where what is published goes may be settled later than the rest, and under another id: a container that is
 * ready before anyone asks has its files, and a session takes them over where they are.
 *
 * Nobody but the controller's user gets past sessions/ID and outputs/ID, but for the reader of what is
 * published there: another user whose session it is. Such a session has its files under another ID. */
#pragma once

#include "host/files/disk.h"
#include "host/files/worker.h"
#include "proto/base/base.h"
#include "proto/base/problem.h"

typedef struct SessionDir {
    char *state_dir;
    char *id;
    char *files_path;          /* host paths */
    char *artifacts_root;      /* files_path/artifacts */
    char *work_artifacts_root; /* scratch/work/artifacts; NULL when pinned */
    char *published_id;        /* NULL until it is settled, as the next two */
    char *published_path;      /* where what is left in artifacts_root is published; exists */
    char *work_published_path; /* NULL when pinned */
    int files_fd;              /* handle held since before any code ran */
} SessionDir;

/* An id whose `files` and `scratch` a container may have mounted before there is a session: they are emptied
 * where others are replaced. */
#define SESSIONDIR_MOUNTED "~pod"

#define SESSIONDIR_NULL ((SessionDir){.files_fd = -1})

/* Makes them, but for those that sandboxed code writes to. `id` is one plain component: the session's name
 * or, for an ephemeral one, its run_id. Files an earlier life left behind are out of the way then, and
 * removed by `worker`; NULL: at once. 0, or -EPROTO
 * with the problem set and nothing to remove. */
int sessiondir_make(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral, Worker *worker,
                    Problem *problem);

/* The same without what is published, which is of an id that is not known yet; then that, with what an
 * earlier life of `id` left removed first. When it fails the directory is as before. */
int sessiondir_make_spare(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral,
                          Worker *worker, Problem *problem);
int sessiondir_claim(SessionDir *directory, const char *id, uid_t reader, Worker *worker, Problem *problem);
#define NO_READER ((uid_t)-1)

/* Undoes the last. */
void sessiondir_disclaim(SessionDir *directory);

/* Makes what sandboxed code writes to, on a disk of its own of that size, or (NULL) where the rest is. For a
 * worker thread when there is a disk. 0, or -EPROTO with the problem set; either way the directory is to be
 * removed in the end. */
int sessiondir_fill(SessionDir *directory, const DiskSize *disk, Problem *problem);

/* Takes over those that an earlier process made, as they are; uploads that it broke off are removed. Makes
 * what is published where it ended before it had claimed that. `mounts`: a disk that is not mounted is. 0, or
 * -EPROTO with the problem set. Either way *ret is to be removed when the session ends. */
int sessiondir_adopt(SessionDir *ret, const char *state_dir, const char *id, const char *published_id,
                     uid_t reader, bool ephemeral, bool mounts, Problem *problem);

/* Has all of it written to what holds it, so that it outlives the machine's next start. For a worker thread.
 */
void sessiondir_sync(const char *state_dir, int files);

/* Returns whether the session has something under this id. */
bool sessiondir_uses(const SessionDir *directory, const char *id);

/* Forgets it; everything stays where it is. */
void sessiondir_deinit(SessionDir *directory);

/* Removes what is not published: out of the way at once, for good on a worker thread (now, when `worker` is
 * NULL). Another life of the same id may begin meanwhile. Deinitialises `directory`. */
void sessiondir_remove(SessionDir *directory, Worker *worker);

/* Goes on with the removals that an earlier controller did not end. Before the first of our own. */
void sessiondir_sweep_removed(const char *state_dir, Worker *worker);

/* Removes what sessions of an earlier controller left, published copies excepted. Those `in_use` says yes to
 * are left alone. */
void sessiondir_sweep(const char *state_dir, Worker *worker, bool (*in_use)(void *userdata, const char *id),
                      void *userdata);

/* Removes `name` of `parent`: out of the way at once, for good on a worker thread. False when it is not
 * there.
 */
bool sessiondir_set_aside(const char *state_dir, int state, int parent, const char *name, Worker *worker);
