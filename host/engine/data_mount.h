/* The data directory of a container, for programs that take paths alone: what a descriptor holds is mounted
 * where only we can reach, so that nobody exchanges it before the program gets there, and stays as long as
 * the container. */
#pragma once

#include <limits.h>

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Mounts it at RUNTIME_DIR/data/NAME, which goes to ret. Without the right to mount ret is the path that it
 * has: whoever runs us may read it, and the program reads no more than that. 0 or a negative errno. */
int data_mount(char ret[static PATH_MAX], const char *runtime_dir, const char *name, int directory);

/* Says that it could not be; returns what problem_set() does. */
int data_refuse(int error, Problem *problem);

/* The container of that name is gone. It need not have had one. */
void data_unmount(const char *runtime_dir, const char *name);

/* Undoes what an earlier process left, for names that are not in use. */
void data_unmount_unused(const char *runtime_dir, bool (*in_use)(void *userdata, const char *name),
                         void *userdata);
