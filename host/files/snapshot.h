/* Snapshots: copies of what is in /session, kept with checkpoints, one directory each in
 *
 *   sessions/ID/checkpoints/CHECKPOINT@BYTES@NAME
 *
 * so that there is no index that could disagree with what is there. Beginning with a dot: being made or
 * removed.
 *
 * A snapshot is restored in two steps. What can fail, copying it, comes first and changes nothing; then the
 * old contents and the copy change places by renaming, in an order that a crash at any point lets be
 * finished:
 *
 *   files/.limpet/restore.stage   is being copied, or is complete and not asked for yet
 *   files/.limpet/restore.new     complete and asked for: the old contents are moving to restore.out
 *   files/.limpet/restore.in      they have; its contents are moving to files
 *
 * Everything may block: for a worker thread, except where it says not. */
#pragma once

#include "host/files/sessiondir.h"
#include "host/files/worker.h"
#include "proto/base/base.h"
#include "proto/base/problem.h"

/* A handle on sessions/ID/checkpoints; -ENOENT when there is none and it is not to be made. Does not block
 * long. */
int snapshot_store(const SessionDir *directory, bool make);

/* Copies what is in `files` into `store`, as one that has no name yet, within what `budget` leaves for it.
 * Negative with the problem set, and nothing kept. */
int snapshot_take(int store, int files, uint64_t budget, uint64_t *ret_bytes, Problem *problem);

/* The one taken last becomes that of `checkpoint`, which may have a `name` (NULL: none). Does not block long.
 */
int snapshot_keep(int store, const char *checkpoint, const char *name, uint64_t bytes);

/* Writes the name of the directory that holds a checkpoint's snapshot, found by the checkpoint's id or name.
 * False when there is none. Does not block long. */
#define SNAPSHOT_ENTRY_SIZE 200
bool snapshot_find(int store, const char *checkpoint, char ret_entry[SNAPSHOT_ENTRY_SIZE]);

/* Calls on_snapshot with the id of each one's checkpoint. Does not block long. */
void snapshot_each(int store, void (*on_snapshot)(void *userdata, const char *checkpoint), void *userdata);

/* Removes the snapshot of a checkpoint, by id or name, if it has one: out of the way at once, for good on a
 * worker thread. */
void snapshot_drop(int store, const char *checkpoint, Worker *worker);

/* The one that has no name yet. */
void snapshot_give_up(int store, Worker *worker);

/* Out of the way at once, for good on a worker thread: an entry of a directory of such. Does not block long.
 */
void snapshot_set_aside(int store, const char *entry, Worker *worker);

/* The first step of restoring. Negative with the problem set, and nothing changed. */
int snapshot_stage(int store, const char *entry, int files, Problem *problem);
void snapshot_unstage(int files);

/* The second. Negative with the problem set: /session is as it was or, when the copy cannot be moved in,
 * lacks what is then still in restore.in. */
int snapshot_restore(int files, Problem *problem);

/* Finishes what a crash interrupted. Before any code runs on these files. */
void snapshot_recover(int files);

/* ---- files that a template puts into /session: a copy of those of a session, one directory each ----
 *
 *   template-files/ID   below the state directory, also while it is being made: nobody knows of its id then
 *
 * A name that begins with a dot is being removed. */

/* A handle on template-files, made if it is not there. Negative errno. */
int template_files_store(const char *state_dir);

/* Copies what is in `files` as `id`, which is new, within `budget` bytes. Negative with the problem set, and
 * nothing kept. For a worker thread, as the next. */
int template_files_take(int store, const char *id, int files, uint64_t budget, uint64_t *ret_bytes,
                        Problem *problem);

/* Puts the copy into `files`, in which no code runs yet. */
int template_files_put(int store, const char *id, int files, Problem *problem);

/* Removes all but those that `is_kept` says yes to, and what was being removed. Does not block long. */
void snapshot_sweep(int store, Worker *worker, bool (*is_kept)(void *userdata, const char *id),
                    void *userdata);
