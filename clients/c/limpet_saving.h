/* Sessions as files: saved and restored, and what they did as a notebook. A part of limpet.h, which includes
 * it. */
#ifndef LIMPET_SAVING_H
#define LIMPET_SAVING_H

#include "limpet.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LimpetSavedVariable {
    const char *name;
    const char *why; /* its value is not in the file; NULL: it is */
} LimpetSavedVariable;

typedef struct LimpetSaved {
    const char *path; /* absolute */
    uint64_t size;    /* of the file */
    const LimpetSavedVariable *variables;
    size_t n_variables;
    const char *const *skipped; /* things that are not in the file, as sockets of /session, with the reason */
    size_t n_skipped;
} LimpetSaved;

/* Saves the variables of a session, /session and its options to the file `path`, which takes its place when
 * it is whole. The session goes on as before: variables are pickled in a copy of its interpreter. The file
 * has all that the session had: treat it like the session itself. `on_progress` may be NULL.
 * LIMPET_SAVE_FAILED says why the session could not be saved, LIMPET_BAD_REQUEST why the file could not be
 * written. *ret, which may be NULL, is freed with limpet_saved_free(). */
LIMPET_API int limpet_save(LimpetClient *client, const char *session, const char *path,
                           LimpetOnProgress *on_progress, void *context, LimpetSaved **ret);
LIMPET_API void limpet_saved_free(LimpetSaved *saved);

typedef struct LimpetRestored {
    LimpetOpened opened;
    const char *const *missing; /* things that are not as they were saved */
    size_t n_missing;
} LimpetRestored;

/* Makes a session of a file that limpet_save() or the Python client wrote: LIMPET_SESSION_EXISTS when one of
 * that name is open. Options that are given win over the saved ones; those that let code reach more come from
 * `options` alone. All of the file is checked before anything is restored: LIMPET_RESTORE_FAILED when it is
 * damaged, or could not be restored; no session is left then. Restoring runs code of whoever made the file,
 * in the new session and nowhere else. `options` and `on_progress` may be NULL. *ret, which may be NULL, is
 * freed with limpet_restored_free(). */
LIMPET_API int limpet_restore(LimpetClient *client, const char *path, const char *session,
                              const LimpetOptions *options, LimpetOnProgress *on_progress, void *context,
                              LimpetRestored **ret);
LIMPET_API void limpet_restored_free(LimpetRestored *restored);

/* A file below /session/artifacts, as its last call left it. */
typedef struct LimpetExportedArtifact {
    const char *path; /* in the container */
    const char *file; /* the copy of it; NULL: it is not as that call left it any more */
    uint64_t size;
    const char *sha256;       /* or NULL */
    const char *run_id;       /* of that call */
    uint64_t execution_count; /* likewise; 0 of a command */
} LimpetExportedArtifact;

typedef struct LimpetExported {
    const char *notebook, *lock;             /* paths of the files */
    const LimpetExportedArtifact *artifacts; /* by path */
    size_t n_artifacts;
} LimpetExported;

/* Writes what a session has done to a directory, which is made; files of these names are replaced.
 * notebook.ipynb has the calls with their outputs, and runs again from top to bottom; artifacts/ has the
 * files that calls made; lock.json has the image, the version of Python and those of all packages. A branch
 * is exported with its session, and is LIMPET_BAD_REQUEST. *ret, which may be NULL, is freed with
 * limpet_exported_free(). */
LIMPET_API int limpet_export(LimpetClient *client, const char *session, const char *directory,
                             LimpetExported **ret);
LIMPET_API void limpet_exported_free(LimpetExported *exported);

#ifdef __cplusplus
}
#endif

#endif
