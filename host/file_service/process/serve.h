/* The files worker: a file service (file_service.h) in a process of its own, behind one end of an Ipc. The
 * launcher makes its disks. */
#pragma once

#include "proto/base/loop.h"
#include "proto/base/problem.h"

/* From now on session_disk.h's are made by the launcher, which serves the other end of that socket, and says
 * where the log is. The descriptor is taken over. 0 or a negative errno. */
int disks_elsewhere(Loop *loop, int socket);

typedef struct FilesWorker {
    const char *state_dir;
    int controller; /* socket of the asker; the descriptors are taken over */
    int launcher;   /* socket of the maker of disks */
} FilesWorker;

/* Serves until the controller is gone, or says what no controller says; the launcher is told to make disks,
 * if it can. 0, or negative with the problem set. */
int files_worker_run(const FilesWorker *worker, Problem *problem);
