/* Running the programs of e2fsprogs: mke2fs and e2fsck. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Exit statuses of e2fsck when the file system is well now: bits. */
#define E2FSCK_REPAIRED 3

/* Runs argv[0] and waits. An exit status that has other bits than those of `well` set is a failure: `failed`
 * says of what, and the first line that the program said why. For a worker thread. 0, or -EPROTO with the
 * problem set. */
int e2fsprogs_run(const char *const argv[], int well, const char *failed, Problem *problem);

/* Writes the path by which such a program finds an open file, whatever name that has by now. Returns ret. */
#define E2FSPROGS_PATH_SIZE 64
const char *e2fsprogs_path(char ret[static E2FSPROGS_PATH_SIZE], int file);
