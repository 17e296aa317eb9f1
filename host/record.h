/* Record: what every call is answered with. Made from what the guest said of the call, checked field by
 * field, and from what only the host knows: names, artifacts, whether the kernel killed for memory. */
#pragma once

#include "host/files/artifacts.h"
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
    Text status, state;
    uint64_t epoch, execution_count;
    const msgpack_object *rolled_back_to;
    Text out, err;
    uint64_t stdout_bytes, stderr_bytes;
    bool truncated;
    Text stdout_file, stderr_file;
    Text result;
    const msgpack_object_array *displays;
    const msgpack_object_map *error;
    const msgpack_object *signal, *exit_code;
    double duration;
    const msgpack_object_map *usage;
} Executed;

/* Refuses what no honest supervisor sends. */
int record_decode(Executed *ret, const msgpack_object_map *body, Problem *problem);

/* Whether the interpreter was killed by SIGKILL: by the kernel for memory, when the supervisor did not. */
bool record_was_killed(const Executed *executed);

/* The record of a call that ran. With `oom` a killed one becomes `oom`. `artifacts` may be NULL. */
int record_write(Buf *ret, const RecordHead *head, const Executed *executed, bool oom,
                 const ArtifactList *artifacts);

/* The record of a call that has nothing but a status and a reason: `failed`, `oom` or `interrupted`. */
int record_write_bare(Buf *ret, const RecordHead *head, const char *status, const char *state,
                      const char *name, const char *message);
