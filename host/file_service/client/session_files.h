/* SessionFiles: what a sandbox knows of its files, which the file service has: their ids, where they are on
 * the host, and what to wait on to know that there is something to publish. */
#pragma once

#include "host/files/artifact_list.h"
#include "host/files/watch.h"
#include "host/file_service/client/file_service_client.h"
#include "proto/base/list.h"

typedef enum FilesPlace {
    FILES_SESSION, /* /session/artifacts */
    FILES_WORK,    /* /work/artifacts, of an ephemeral one */
    FILES_PLACES,
} FilesPlace;

typedef struct PlaceWatch {
    int fd;       /* -1: none */
    bool pending; /* there may be something, whatever the descriptor says */
} PlaceWatch;

/* State of the files, as far as the file service has said. */
typedef enum FilesState {
    FILES_NONE,  /* it has none */
    FILES_ASKED, /* to be prepared, or to be taken over */
    FILES_THERE,
    FILES_AMISS, /* it has some, which cannot be used */
} FilesState;

typedef struct SessionFiles {
    FileServiceClient *file_service;
    FilesState state;
    uid_t user;         /* for whom it is asked */
    char *id;           /* of the directory; NULL: there is none */
    char *files_path;   /* host path of /session */
    char *scratch_path; /* of /tmp and others: sessiondir.h */
    bool ephemeral;     /* with /work */
    PlaceWatch watches[FILES_PLACES];
    List asked;        /* FilesAsk: what has no answer */
    bool has_reported; /* there may be something to be told by session_files_ask_reported() */
    List noted;        /* reported since they were last asked for */
} SessionFiles;

/* Initializes the files of a session that has none yet. */
void session_files_init(SessionFiles *files, FileServiceClient *file_service);

/* Told what becomes of a request: `failure` is NULL when it was done. Nobody is told once the files are
 * removed, or left. */
typedef void FilesDone(void *userdata, const Problem *failure);

/* As much as the copies may take. */
typedef struct FilesRoom {
    uint64_t bytes, files;
} FilesRoom;

typedef struct FilesSpec {
    const char *state_dir;
    const char *id;        /* of the directory */
    const char *published; /* id of what is published; NULL: session_files_claim() says so later */
    uint64_t reader;       /* besides us, of that; NO_UINT: nobody */
    FilesRoom room;
    bool ephemeral;
    bool disk;            /* they are on a disk of their own, as large as the room */
    const char *template; /* whose files are put there; NULL: none */
} FilesSpec;

/* Has them made; what an earlier life of that id left goes. `done` is always told, and they are removed only
 * then. Where it fails nothing is left of them. 0, or -EPROTO with the problem set and nothing begun; so
 * below. */
int session_files_prepare(SessionFiles *files, const FilesSpec *spec, FilesDone *done, void *userdata,
                          Problem *problem);

/* Settles where those without a `published` publish. No cell has left anything yet. */
int session_files_claim(SessionFiles *files, const FilesSpec *spec, FilesDone *done, void *userdata,
                        Problem *problem);

/* Takes over those that an earlier process made. `mounts`: their disk is mounted where it is not. Also when
 * that fails there is something to be removed. */
int session_files_adopt(SessionFiles *files, const FilesSpec *spec, bool mounts, FilesDone *done,
                        void *userdata, Problem *problem);

/* Begins to have them written to what holds them, so that they outlive the machine's next start. */
void session_files_sync(SessionFiles *files);

/* Tells the file service what that process had reported: see index.h. Before the first publication. */
void session_files_reported(SessionFiles *files, const msgpack_object_array *reported);

/* Removes what is not published, or leaves all of it to another process. Nothing is known afterwards. */
void session_files_remove(SessionFiles *files);
void session_files_leave(SessionFiles *files);

/* ---- publishing ---- */

/* Returns whether there may be something to publish: one system call when there is not. */
static inline bool session_files_dirty(const SessionFiles *files, FilesPlace place)
{
    const PlaceWatch *watch = &files->watches[place];

    return !list_empty(&files->asked) || watch->pending || watch_queued(watch->fd) > 0;
}

/* `list` is the callee's; NULL when nothing could be published, or was to be. The sandbox may be gone by
 * then. */
typedef void FilesPublished(void *userdata, ArtifactList *list);

/* Publishes what is new; or takes it for reported without publishing it. 0, or a negative errno and nothing
 * is told. */
int session_files_publish(SessionFiles *files, FilesPlace place, FilesPublished *done, void *userdata);
int session_files_accept(SessionFiles *files, FilesPublished *done, void *userdata);

/* Calls `put` with encoded arrays of what was reported of /session/artifacts since it was last asked for,
 * until it returns a negative errno, and returns that. Of an ephemeral one nothing is told; so below. */
typedef int FilesPut(void *userdata, const Buf *reported);
int session_files_put_reported(SessionFiles *files, FilesPut *put, void *userdata);

/* Asks for all that was reported. `reported` are encoded arrays, as bytes; NULL where they cannot be had now.
 * All that session_files_put_reported() would tell is in them. Nobody is told once the files are gone. */
typedef void FilesReported(void *userdata, const Value *reported);
int session_files_ask_reported(SessionFiles *files, FilesReported *done, void *userdata);
