/* Subordinate ids: those of /etc/subuid and /etc/subgid that a user may give to processes in a user
 * namespace. */
#pragma once

#include <stdint.h>

#include "proto/base/problem.h"

typedef struct IdRange {
    uint32_t first, count;
} IdRange;

/* Finds the first range of the user in the text of such a file, by name or by number. `ret_free` gets the
 * first id from SUBORDINATE_FIRST on that nobody in the text has. 0, or -ENOENT with *ret_free set. */
int subordinate_find(const char *text, const char *name, uint32_t id, IdRange *ret, uint32_t *ret_free);

#define SUBORDINATE_FIRST 100000u
#define SUBORDINATE_COUNT 65536u /* as many as useradd gives */

/* Finds the ranges of the user who runs this, which have the ids of sandboxes in them. 0, or negative with a
 * problem that says how to get them. */
int subordinate_own(IdRange *ret_users, IdRange *ret_groups, Problem *problem);
