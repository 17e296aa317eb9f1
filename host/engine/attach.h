/* Host directories in containers: added to one that runs, or mounted on the host for engines that take paths
 * alone. */
#pragma once

#include <limits.h>

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Mounts what the descriptor `directory` holds onto /data of the container that the process behind a pidfd
 * runs in: read-only, nosuid, nodev and private; with `recursive` together with what is mounted below it,
 * otherwise without. The caller has made sure that the process is the container's. Nothing is mounted after a
 * failure. Returns as EngineOps.attach_data; -EBUSY when something is mounted there already. */
int attach_data(int process, int directory, bool recursive, Problem *problem);

/* Writes the path of the set of packages of that name, below the state directory. */
#define PACKAGES_PATH_SIZE 128
void packages_path(char ret[static PACKAGES_PATH_SIZE], const char *name);

/* A handle on it, or negative with the problem set. */
int packages_open(const char *state_dir, const char *name, Problem *problem);

/* Mounts it read-only at PACKAGES_TARGET of the container, in place of what was mounted there before, which
 * may then be removed. 0, or negative with the problem set. */
int attach_packages(int process, const char *state_dir, const char *name, Problem *problem);

/* Sets the problem of a container that does not run; -ESRCH. */
int attach_too_late(Problem *problem);

/* Sets the problem that says why it cannot be done here; -EOPNOTSUPP. */
int attach_refuse(Problem *problem, const char *why);

/* Mounts the data directory of a container where only we can reach it, so that nobody exchanges it before a
 * program that takes paths alone gets there; it stays as long as the container. Mounts it at
 * RUNTIME_DIR/data/NAME, which goes to ret. Without the right to mount ret is the path that it has: whoever
 * runs us may read it, and the program reads no more than that. 0 or a negative errno. */
int data_mount(char ret[static PATH_MAX], const char *runtime_dir, const char *name, int directory);

/* Says that it could not be; returns what problem_set() does. */
int data_refuse(int error, Problem *problem);

/* The container of that name is gone. It need not have had one. */
void data_unmount(const char *runtime_dir, const char *name);

/* Removes the mounts of data and the views that an earlier process left, for names that are not in use. */
void attach_sweep(const char *runtime_dir, bool (*in_use)(void *userdata, const char *name), void *userdata);

/* Mounts a directory onto itself with nosuid and nodev, which every bind mount made of it then has too. The
 * flags are on the mount before it can be seen, so that they hold in other mount namespaces as well. -EPERM
 * without the right to mount. */
int mounts_restrict(const char *directory);

/* Undoes that. A directory that is no mount point is left alone. */
void mounts_release(const char *directory);
