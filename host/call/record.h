/* Record: what every call is answered with. Made from what the guest said of the call, checked field by
 * field, and from what only the host knows: names, artifacts, whether the kernel killed for memory. */
#pragma once

#include "host/files/artifact_list.h"
#include "proto/schema.h"

/* The host's part of a record, whatever the guest says. */
typedef struct RecordHead {
    const char *run_id;
    const char *session; /* NULL for a call in a container of its own */
    const char *kind;    /* command, or the language of the code */
    const char *engine;
    uint64_t execution_count; /* NO_UINT of a command */
    uint64_t epoch;
} RecordHead;

/* A call's end as the guest tells it; points into its message. Refuses what no honest supervisor sends. */
int record_decode(MsgExecuted *ret, const msgpack_object_map *body, Problem *problem);

/* Returns whether the kernel may have killed the interpreter or the command for memory: it ended by
 * SIGKILL, or so slowly that the supervisor only saw that its channel was closed; or a shell says so of
 * its command. */
bool record_was_killed(const MsgExecuted *executed);

/* The record of a call that ran. With `oom` a killed one becomes `oom`. `artifacts` may be NULL. */
int record_write(Buf *ret, const RecordHead *head, const MsgExecuted *executed, bool oom,
                 const ArtifactList *artifacts);

/* The record of a call that has nothing but a status and a reason: `failed`, `oom` or `interrupted`. */
int record_write_bare(Buf *ret, const RecordHead *head, const char *status, const char *state,
                      const char *name, const char *message);
