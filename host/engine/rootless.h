/* The engine oci for a user who is not root.
 *
 * limpetd enters a user namespace in which it is root: uid 0 there is the user, and the uids from 1 on are
 * the user's subordinate ids. From then on it does what root's controller does, with rights over nothing but
 * what the user and these ids own. Disks, and control groups that are not delegated, need more: what follows
 * from that is EngineOps.not_enforced. */
#pragma once

#include "host/engine/engine.h"

/* Checks that rootless_enter() can do it. 0, or negative with a problem that says what is missing. */
int rootless_check(Problem *problem);

/* Enters the namespace of the containers that an earlier controller left in config->runtime_dir, or a new
 * one, with mounts of its own. The caller has one thread. 0, or negative with the problem set. */
int rootless_enter(const EngineConfig *config, Problem *problem);

/* Returns whether this process has entered one. */
bool rootless_entered(void);

/* A directory that everybody may enter, with nothing in it but what this process mounts there. Nobody else
 * sees it. The way to the user's own directories is closed to the ids of sandboxes. */
#define ROOTLESS_PLACE "/root"

/* Subordinate ids: those of /etc/subuid and /etc/subgid that a user may give to processes in a user
 * namespace. */

typedef struct IdRange {
    uint32_t first, count;
} IdRange;

/* Finds the first range of the user in the text of such a file, by name or by number. `ret_free` gets the
 * first id from SUBORDINATE_FIRST on that nobody in the text has. 0, or -ENOENT with *ret_free set. */
int subordinate_find(const char *text, const char *name, uint32_t id, IdRange *ret, uint32_t *ret_free);

#define SUBORDINATE_FIRST 100000u
#define SUBORDINATE_COUNT 65536u /* as many as useradd gives */
