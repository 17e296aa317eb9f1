/* Mounting a host directory into a container that runs already. */
#pragma once

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
