/* Shared by the files of the file service, and included by nobody else. */
#pragma once

#include <uthash.h>

#include "host/files/artifacts.h"
#include "host/files/leftovers.h"
#include "host/files/package_store.h"
#include "host/files/sessiondir.h"
#include "host/file_service/file_service.h"

typedef enum ArtifactsPlace {
    PLACE_SESSION, /* /session/artifacts */
    PLACE_WORK,    /* /work/artifacts, of an ephemeral one */
    PLACES,
} ArtifactsPlace;

/* A session whose files are here. */
typedef struct FileSession {
    FileService *file_service;
    SessionDir directory;
    Artifacts *artifacts[PLACES]; /* NULL while they are not watched */
    unsigned told[PLACES];        /* number of the watch whose descriptor the asker has */
    bool filling;                 /* it is being prepared: nothing else is done meanwhile */
    List copies;                  /* FileServiceJob.in_copies: of its files, one at a time */
    unsigned jobs;                /* under way; they go on when it is gone */
    bool gone;
    UT_hash_handle by_id;
} FileSession;

struct FileService {
    FileServiceConfig config;
    char *state_dir;
    Worker *worker;   /* copies and hashes */
    Worker *makers;   /* make disks: somebody waits for them */
    Worker *removers; /* end mounts and remove what nobody uses any more: nobody waits */
    FileSession *sessions;
    size_t jobs; /* under way */
};

/* A request, until it is answered. */
typedef struct FileServiceJob {
    WorkerJob work;
    FileService *file_service;
    uint64_t id;
    JobKind kind;
    Buf bytes; /* memory of `message` */
    Message message;
    JobRequest request;
    FileSession *session; /* the session of the request, if it has one */
    List in_copies;
    int store; /* handles of its own, or -1 */
    int files;
    char *entry; /* name of a directory, or NULL */
    int came;    /* descriptor that came with the request, or -1 */
    int passed;  /* descriptor that goes with the answer, or -1 */
    Buf data;
    uint64_t size;
    Leftovers leftovers, saved;
    PackageSet packages;
    Problem problem;
} FileServiceJob;

/* ---- answering: each ends the job ---- */

#define job_done(job, type, body) job_answer(job, SCHEMA(type), (const type *){body}, NULL)
#define job_done_with(job, type, body, descriptors)                                                          \
    job_answer(job, SCHEMA(type), (const type *){body}, descriptors)
/* The descriptors are taken over; NULL: none. */
void job_answer(FileServiceJob *job, const Schema *schema, const void *body, Descriptors *descriptors);
void job_end(FileServiceJob *job); /* JobNothing, or its problem if it has one */
void job_fail(FileServiceJob *job);
void job_fail_errno(FileServiceJob *job, const char *what, int error);

/* A copy of an id from within a request, which can be that of a directory. Otherwise NULL, and the problem is
 * set. */
char *job_id(FileServiceJob *job, Text id);

/* ---- sessions ---- */

FileSession *file_session_find(FileService *file_service, const char *id);
/* With what is there of it, or forgetting it. */
void file_session_remove(FileSession *session, bool discard);
/* Returns whether something of that id belongs to a session that is open. */
bool file_sessions_use(void *file_service, const char *id);
/* A job that holds on to it, and lets it go. */
void file_session_hold(FileServiceJob *job);
void file_session_release(FileServiceJob *job);

/* Begins to watch its artifacts; `looks`: no cell of an honest asker can have left any yet, and a call that
 * leaves none is not dirty, though it be the first. 0, or -EPROTO with the problem set and nothing watched.
 */
int file_session_watch(FileSession *session, uint64_t bytes, uint64_t files, bool looks, Problem *problem);
/* Answers with what is watched, and ends the job. */
void job_answer_watched(FileServiceJob *job);

static inline uid_t reader_of(uint64_t given)
{
    return given == NO_UINT ? NO_READER : (uid_t)given;
}

/* ---- what is done: each function ends its job, now or later ---- */

typedef void JobHandler(FileServiceJob *job);

/* sessions.c */
JobHandler do_prepare, do_adopt, do_sync, do_sync_state, do_remove, do_leave, do_sweep_removed, do_sweep;
JobHandler do_put, do_store, do_get, do_forget_uploads, do_forget_memory;
/* artifacts.c */
JobHandler do_claim, do_reported, do_baseline, do_publish, do_accept, do_read_published, do_review;
/* stores.c */
JobHandler do_take, do_keep, do_give_up, do_find, do_list, do_drop, do_prune, do_stage, do_unstage,
    do_restore;
JobHandler do_take_template, do_drop_template, do_sweep_templates;
JobHandler do_packages_take, do_packages_find, do_packages_trim;
/* forks.c */
JobHandler do_fork, do_take_memory;
void job_memory_taken(WorkerJob *work); /* answers with what is to be passed, or with the job's problem */
/* images.c */
JobHandler do_image, do_sweep_images;
