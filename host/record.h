/* Record: what every call is answered with. Made from what the guest said of the call, checked field by
 * field, and from what only the host knows: names, artifacts, whether the kernel killed for memory. */
#pragma once

#include "host/files/artifacts.h"
#include "host/protection.h"
#include "host/variables.h"
#include "proto/wire.h"

/* What the host says of a call, whatever the guest says. */
typedef struct RecordHead {
    const char *run_id;
    const char *session; /* NULL for a call in a container of its own */
    const char *engine;
    uint64_t execution_count;
    uint64_t epoch;
} RecordHead;

/* A call's end as the guest tells it (`executed`); points into its message. */
typedef struct Executed {
    Text run_id;
    uint64_t code_hash, branch;
    Text status, state;
    const msgpack_object_map
        *rolled_back_to; /* NULL: nil, as with the others; then so is what it is decoded to */
    RolledBack rolled_back;
    const msgpack_object_array *not_restored;
    const msgpack_object_map *state_protection;
    StateProtection protection;
    const msgpack_object_map *changed;
    Changed changes;
    uint64_t epoch, execution_count;
    Text out, err;
    uint64_t stdout_bytes, stderr_bytes;
    bool truncated;
    Text stdout_file, stderr_file;
    Text result;
    const msgpack_object_array *displays;
    const msgpack_object_map *error;
    const msgpack_object *signal, *exit_code;
    double duration;
    const msgpack_object_map *usage; /* decoded to these: */
    double cpu;                      /* seconds */
    uint64_t peak_memory;            /* bytes */
} Executed;

/* Refuses what no honest supervisor sends. */
int record_decode(Executed *ret, const msgpack_object_map *body, Problem *problem);

/* Whether the interpreter may have been killed by the kernel for memory: it ended by SIGKILL, or so slowly
 * that the supervisor only saw that its channel was closed. */
bool record_was_killed(const Executed *executed);

/* The record of a call that ran. With `oom` a killed one becomes `oom`. `artifacts` may be NULL. */
int record_write(Buf *ret, const RecordHead *head, const Executed *executed, bool oom,
                 const ArtifactList *artifacts);

/* The record of a call that has nothing but a status and a reason: `failed`, `oom` or `interrupted`. */
int record_write_bare(Buf *ret, const RecordHead *head, const char *status, const char *state,
                      const char *name, const char *message);
