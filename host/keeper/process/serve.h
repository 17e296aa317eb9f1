/* The files worker: a keeper (keeper.h) in a process of its own, behind one end of a KeeperLink. */
#pragma once

#include "proto/base/problem.h"

typedef struct FilesWorker {
    const char *state_dir;
    int controller; /* socket of the asker; the descriptors are taken over */
    int launcher;   /* socket of the maker of disks */
} FilesWorker;

/* Serves until the controller is gone, or says what no controller says; the launcher is told to make disks,
 * if it can. 0, or negative with the problem set. */
int files_worker_run(const FilesWorker *worker, Problem *problem);
