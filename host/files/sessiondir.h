/* The directories of one session below the controller's state directory:
 *
 *   sessions/ID/files        /session in the container: sticky and writable by all in it, with
 *   sessions/ID/files/artifacts   the same, and
 *   sessions/ID/files/.limpet     ours alone
 *   sessions/ID/work         /work of an ephemeral one, with work/artifacts
 *   sessions/ID/artifacts    published copies of a pinned session; they stay
 *   outputs/ID               published copies of an ephemeral one, in `session` and `work`; they stay
 *   removed                  what is being removed
 *
 * Nobody but the controller's user gets past sessions and outputs. */
#pragma once

#include "host/files/worker.h"
#include "proto/base/base.h"
#include "proto/base/problem.h"

typedef struct SessionDir {
    char *state_dir;
    char *id;
    char *files_path;          /* host paths */
    char *artifacts_root;      /* files_path/artifacts */
    char *published_path;      /* where what is left there is published; exists */
    char *work_path;           /* NULL when pinned, as the next two */
    char *work_artifacts_root; /* work_path/artifacts */
    char *work_published_path;
    int files_fd; /* handle held since before any code ran */
} SessionDir;

#define SESSIONDIR_NULL ((SessionDir){.files_fd = -1})

/* Makes them. `id` is one plain component: the session's name or, for an ephemeral one, its run_id. Files an
 * earlier life left behind are removed first. 0, or -EPROTO with the problem set and nothing to remove. */
int sessiondir_make(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral, Problem *problem);

/* Removes what is not published: out of the way at once, for good on a worker thread (now, when `worker` is
 * NULL). Another life of the same id may begin meanwhile. Deinitialises `directory`. */
void sessiondir_remove(SessionDir *directory, Worker *worker);

/* Removes what sessions of an earlier controller left, published copies excepted. When no session is open. */
void sessiondir_sweep(const char *state_dir, Worker *worker);
