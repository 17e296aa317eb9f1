/* Variables of a session: the copies of them that are kept, branches, contexts, and what there is. A part of
 * limpet.h, which includes it. */
#ifndef LIMPET_STATE_H
#define LIMPET_STATE_H

#include "limpet.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A frozen copy of an interpreter. */
typedef struct LimpetCheckpoint {
    const char *id;
    const char *name;         /* or NULL */
    const char *session;      /* the session or branch it was taken of */
    uint64_t execution_count; /* the last call whose effects are in it */
    double created;
    bool automatic;
    bool files;             /* /session is kept with it */
    uint64_t private_bytes; /* memory that it alone holds, as last measured */
    const char *parent;     /* id of the checkpoint from which its state came; or NULL */
} LimpetCheckpoint;

typedef struct LimpetTaken {
    LimpetCheckpoint checkpoint;
    const char *const *dropped; /* ids of checkpoints that had to go for it */
    size_t n_dropped;
} LimpetTaken;

/* Takes a checkpoint, which is kept until it is dropped or the memory for checkpoints is needed. `name` may
 * be NULL; `files`: keep a copy of /session with it. *ret is freed with limpet_taken_free(). */
LIMPET_API int limpet_checkpoint(LimpetClient *client, const char *session, const char *name, bool files,
                                 LimpetTaken **ret);
LIMPET_API void limpet_taken_free(LimpetTaken *taken);

typedef struct LimpetCheckpoints {
    const LimpetCheckpoint *checkpoints; /* oldest first */
    size_t n_checkpoints;
} LimpetCheckpoints;

/* Lists the checkpoints of a session and all its branches. */
LIMPET_API int limpet_checkpoints(LimpetClient *client, const char *session, LimpetCheckpoints **ret);
LIMPET_API void limpet_checkpoints_free(LimpetCheckpoints *checkpoints);

typedef struct LimpetRollback {
    const char *checkpoint;          /* its id */
    uint64_t execution_count;        /* the last call whose effects are in the variables */
    uint64_t epoch;                  /* the new one */
    bool files_restored;             /* /session too is as it was */
    const char *const *not_restored; /* objects that a copy of memory does not bring back, such as a thread */
    size_t n_not_restored;
} LimpetRollback;

/* Goes back to a checkpoint, an id or a name, of the session or any of its branches; it is kept. */
LIMPET_API int limpet_rollback(LimpetClient *client, const char *session, const char *checkpoint,
                               LimpetRollback **ret);
LIMPET_API void limpet_rollback_free(LimpetRollback *rollback);

/* Gives a checkpoint up. */
LIMPET_API int limpet_drop(LimpetClient *client, const char *session, const char *checkpoint);

/* Makes the session SESSION/NAME with the variables of a checkpoint, or with those of this moment where
 * `checkpoint` is NULL. It shares the container and the files, and is used and closed as a session. `opened`
 * may be NULL. */
LIMPET_API int limpet_branch(LimpetClient *client, const char *session, const char *name,
                             const char *checkpoint, LimpetOpened *opened);

/* Makes `n` sessions of these names, in containers of their own, with copies of the live variables and the
 * files of the session; all, or none. `opened` has room for `n`, or is NULL. LIMPET_SESSION_EXISTS where
 * there is one of such a name. */
LIMPET_API int limpet_fork(LimpetClient *client, const char *session, const char *const *names, size_t n,
                           LimpetOpened *opened);

/* Makes the session SESSION/NAME with nothing in it, or attaches to it: a context, whose code is in
 * `language`, NULL for Python, and begins in the directory `cwd`, NULL for /session. `name` NULL is that of
 * the language. It shares the container and the files, and is used and closed as a session.
 * LIMPET_BAD_REQUEST when the image does not have the language, LIMPET_OPTIONS_DIFFER when it is there with
 * another one. `opened` may be NULL. */
LIMPET_API int limpet_context(LimpetClient *client, const char *session, const char *name,
                              const char *language, const char *cwd, LimpetOpened *opened);

/* Makes the state of a branch, NAME or SESSION/NAME, that of the session itself; the branch ends. Both
 * numbers, the session's new ones, may be NULL. */
LIMPET_API int limpet_commit(LimpetClient *client, const char *session, const char *branch,
                             uint64_t *execution_count, uint64_t *epoch);

typedef struct LimpetNamespace {
    const LimpetVariable
        *variables; /* in the order they were bound, without those with an underscore first */
    size_t n_variables;
    uint64_t more; /* variables that were left out */
} LimpetNamespace;

/* Lists the session's variables. */
LIMPET_API int limpet_namespace(LimpetClient *client, const char *session, LimpetNamespace **ret);
LIMPET_API void limpet_namespace_free(LimpetNamespace *names);

/* Each as the controller's reply, field by field as in proto/PROTOCOL.md, in one JSON object to be freed with
 * free(); NULL when out of memory. */
LIMPET_API char *limpet_taken_json(const LimpetTaken *taken);
LIMPET_API char *limpet_checkpoints_json(const LimpetCheckpoints *checkpoints);
LIMPET_API char *limpet_rollback_json(const LimpetRollback *rollback);
LIMPET_API char *limpet_namespace_json(const LimpetNamespace *names);

#ifdef __cplusplus
}
#endif

#endif
