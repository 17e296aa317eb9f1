/* SessionFiles: what a sandbox knows of its files, which the keeper has: their ids, where they are on the
 * host, and what to wait on to know that there is something to publish. */
#pragma once

#include "host/files/artifact_list.h"
#include "host/keeper/client/keeper_client.h"
#include "proto/base/list.h"

typedef enum FilesPlace {
    FILES_SESSION, /* /session/artifacts */
    FILES_WORK,    /* /work/artifacts, of an ephemeral one */
    FILES_PLACES,
} FilesPlace;

typedef struct Lookout {
    int fd;          /* -1: none */
    bool pending;    /* there may be something, whatever the descriptor says */
    unsigned asking; /* publications without an answer */
} Lookout;

typedef struct SessionFiles {
    KeeperClient *keeper;
    uid_t user;         /* for whom it is asked */
    char *id;           /* of the directory; NULL: there is none */
    char *published_id; /* NULL until it is settled */
    char *files_path;   /* host path of /session */
    char *scratch_path; /* of /tmp and others: sessiondir.h */
    bool ephemeral;     /* with /work */
    Lookout lookouts[FILES_PLACES];
    List asked;        /* publications that have no answer */
    bool has_reported; /* there may be something to be told by session_files_baseline() */
    List noted;        /* reported since they were last asked for */
} SessionFiles;

/* As much as the copies may take. */
typedef struct FilesRoom {
    uint64_t bytes, files;
} FilesRoom;

/* Initializes the files of a session that has none yet. */
void session_files_init(SessionFiles *files, KeeperClient *keeper);

/* Makes the directory `id`, where what is left is published too if it is `published`. What an earlier life of
 * that id left goes. 0, or -EPROTO with the problem set and nothing made; so below. */
int session_files_make(SessionFiles *files, const char *state_dir, const char *id, bool ephemeral,
                       bool published, Problem *problem);

/* Makes what sandboxed code writes to. On a disk of its own: `done` is told when it is there; it may be
 * removed only then. */
int session_files_fill(SessionFiles *files, Problem *problem);
int session_files_fill_disk(SessionFiles *files, FilesRoom size, KeeperDone *done, void *userdata,
                            Problem *problem);

/* Puts the files of a template there; it may be removed only when `done` has been told. */
int session_files_put_template(SessionFiles *files, const char *template, KeeperDone *done, void *userdata,
                               Problem *problem);

/* Begins to watch what is left in artifacts. */
int session_files_watch(SessionFiles *files, FilesRoom room, Problem *problem);

/* Settles under which id that is published, for a `reader` to read besides us, or nobody (NO_UINT). No cell
 * can have left anything yet: where there is `room`, and not NULL, it is watched from then on. */
int session_files_claim(SessionFiles *files, const char *as, uint64_t reader, const FilesRoom *room,
                        Problem *problem);

/* Takes over those that an earlier process made. `mounts`: their disk is mounted where it is not. Also when
 * that fails there is something to be removed. */
int session_files_adopt(SessionFiles *files, const char *state_dir, const char *id, const char *published_id,
                        bool ephemeral, bool mounts, Problem *problem);

/* Begins to have them written to what holds them, so that they outlive the machine's next start. */
void session_files_sync(SessionFiles *files);

/* Tells the keeper what that process had reported: see index.h. Before the first publication. */
void session_files_reported(SessionFiles *files, const msgpack_object_array *reported);

/* Removes what is not published, or leaves all of it to another process. Nothing is known afterwards. */
void session_files_remove(SessionFiles *files);
void session_files_leave(SessionFiles *files);

/* ---- publishing ---- */

/* Returns whether there may be something to publish: one system call when there is not. */
bool session_files_dirty(const SessionFiles *files, FilesPlace place);

/* `list` is the callee's; NULL when nothing could be published, or was to be. The sandbox may be gone by
 * then. */
typedef void FilesPublished(void *userdata, ArtifactList *list);

/* Publishes what is new; or takes it for reported without publishing it. 0, or a negative errno and nothing
 * is told. */
int session_files_publish(SessionFiles *files, FilesPlace place, FilesPublished *done, void *userdata);
int session_files_accept(SessionFiles *files, FilesPublished *done, void *userdata);

/* Calls `put` with encoded arrays of what was reported of /session/artifacts since it was last asked for, or
 * `all` (not while a publication is under way: -EBUSY), until it returns a negative errno, and returns that.
 * Of an ephemeral one nothing is told. */
int session_files_baseline(SessionFiles *files, bool all, int (*put)(void *userdata, const Buf *reported),
                           void *userdata);
