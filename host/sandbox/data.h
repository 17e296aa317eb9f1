/* A session's /data: a directory of the host, as far as its user may read it. */
#pragma once

#include "host/sandbox/sandboxes.h"
#include "proto/fields.h"

/* DataOpening: a directory that is being opened. The file system that it is on may never answer, which delays
 * nobody but its user: of each one directory is opened at a time, the others wait. */
typedef struct DataOpening DataOpening;

/* Told the descriptor, which is the callee's, and the canonical path; or the failure, and -1 and NULL. */
typedef void DataDone(void *userdata, int directory, const char *path, const Problem *failure);

/* Opens the directory as the user. A user other than the controller's own gets none with processes of the
 * host or directories of the controller in it: its sandboxed code would have the ids of other sandboxes
 * there. `done` is told once, never from within this. NULL with the problem set, and nobody is told. */
DataOpening *data_open(Sandboxes *all, uid_t user, Text path, DataDone *done, void *userdata,
                       Problem *problem);

/* Has nobody be told. NULL. */
DataOpening *data_forget(DataOpening *opening);

/* Tells all that wait that the controller ends. */
void data_shut_down(Sandboxes *all);
