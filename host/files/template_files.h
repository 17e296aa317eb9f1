/* Files that a template puts into /session: a copy of those of a session, one directory each in the
 * controller's state directory:
 *
 *   template-files/ID   the copy, also while it is being made: nobody knows of its id then
 *
 * A name that begins with a dot is being removed. */
#pragma once

#include "host/files/worker.h"
#include "proto/base/base.h"
#include "proto/base/problem.h"

/* A handle on template-files, made if it is not there. Negative errno. */
int template_files_store(const char *state_dir);

/* Copies what is in `files` as `id`, which is new, within `budget` bytes. Negative with the problem set, and
 * nothing kept. For a worker thread, as the next. */
int template_files_take(int store, const char *id, int files, uint64_t budget, uint64_t *ret_bytes,
                        Problem *problem);
/* Puts the copy into `files`, in which no code runs yet. */
int template_files_put(int store, const char *id, int files, Problem *problem);

/* Removes all but those that `is_kept` says yes to, and what was being removed. Does not block long. */
void template_files_sweep(int store, Worker *worker, bool (*is_kept)(void *userdata, const char *id),
                          void *userdata);
