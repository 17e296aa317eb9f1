/* Protocol of the controller with the file service (file_service.h): jobs, which go over an Ipc where that is
 * another process. */
#pragma once

#include <limits.h>

#include "host/ipc/ipc.h"
#include "proto/base/buf.h"
#include "proto/fields.h"

#define SCHEMA_FILE "host/file_service/protocol.def"
#include "proto/schema/as_structs.h"

/* Jobs: a request is a message of one of these kinds, with a body of its type; the answer has the same
 * number, and is JOB_DONE with a body of the other type, or JOB_FAILED. Either may come from another process:
 * nothing in it is believed before it is looked at.
 *
 * JOB(kind, request, answer, slow): a slow one may take as long as a disk does, and is done on a thread; the
 * others are done at once and in the order they are asked in. */
#define JOBS(JOB)                                                                                            \
    JOB(PREPARE, JobPrepare, JobWatched, true)                                                               \
    JOB(CLAIM, JobClaim, JobWatched, false)                                                                  \
    JOB(ADOPT, JobAdopt, JobWatched, false)                                                                  \
    JOB(REPORTED, JobReported, JobNothing, false)                                                            \
    JOB(BASELINE, JobOf, JobFiles, false)                                                                    \
    JOB(PUBLISH, JobPublish, JobPublished, true)                                                             \
    JOB(ACCEPT, JobPublish, JobPublished, true)                                                              \
    JOB(PUT, JobPut, JobPutDone, true)                                                                       \
    JOB(STORE, JobStore, JobNothing, true)                                                                   \
    JOB(FORGET_UPLOADS, JobUploads, JobNothing, true)                                                        \
    JOB(READ_PUBLISHED, JobReadPublished, JobGot, true)                                                      \
    JOB(GET, JobGet, JobGot, true)                                                                           \
    JOB(TAKE, JobTake, JobTaken, true)                                                                       \
    JOB(KEEP, JobKeep, JobNothing, false)                                                                    \
    JOB(GIVE_UP, JobOf, JobNothing, false)                                                                   \
    JOB(FIND, JobCheckpoint, JobFound, false)                                                                \
    JOB(DROP, JobCheckpoint, JobNothing, false)                                                              \
    JOB(PRUNE, JobPrune, JobNothing, false)                                                                  \
    JOB(STAGE, JobCheckpoint, JobNothing, true)                                                              \
    JOB(UNSTAGE, JobOf, JobNothing, true)                                                                    \
    JOB(RESTORE, JobOf, JobNothing, true)                                                                    \
    JOB(FORK, JobFork, JobNothing, true)                                                                     \
    JOB(TAKE_TEMPLATE, JobTemplate, JobTaken, true)                                                          \
    JOB(DROP_TEMPLATE, JobTemplateGone, JobNothing, false)                                                   \
    JOB(SWEEP_TEMPLATES, JobTemplates, JobNothing, false)                                                    \
    JOB(REMOVE, JobOf, JobNothing, false)                                                                    \
    JOB(LEAVE, JobOf, JobNothing, false)                                                                     \
    JOB(SWEEP_REMOVED, JobNothing, JobNothing, false)                                                        \
    JOB(SWEEP, JobNothing, JobNothing, false)                                                                \
    JOB(REVIEW, JobReview, JobReviewed, true)                                                                \
    JOB(FORGET_MEMORY, JobMemory, JobNothing, true)                                                          \
    JOB(PACKAGES_TAKE, JobTakePackages, JobPackages, true)                                                   \
    JOB(PACKAGES_FIND, JobFindPackages, JobPackages, true)                                                   \
    JOB(PACKAGES_TRIM, JobTrimPackages, JobTrimmed, true)                                                    \
    JOB(SYNC, JobOf, JobNothing, true)                                                                       \
    JOB(SYNC_STATE, JobNothing, JobNothing, true)                                                            \
    JOB(LIST, JobOf, JobKept, false)                                                                         \
    JOB(TAKE_MEMORY, JobTakeMemory, JobTaken, true)                                                          \
    JOB(KEEP_IMAGE, JobImage, JobTaken, true)                                                                \
    JOB(OPEN_IMAGE, JobImage, JobTaken, true)                                                                \
    JOB(SWEEP_IMAGES, JobImages, JobNothing, false)

typedef enum JobKind {
    JOB_DONE,
    JOB_FAILED,
#define JOB(kind, request, answer, slow) JOB_##kind,
    JOBS(JOB)
#undef JOB
        JOB_KINDS,
} JobKind;

typedef struct JobType {
    const char *name;
    const Schema *(*request)(void);
    const Schema *(*answer)(void);
    bool slow;
} JobType;

/* NULL when nobody can ask for it. */
const JobType *job_type(JobKind kind);

/* The struct of any request, and of any answer. */
typedef union JobRequest {
#define JOB(kind, request, answer, slow) request as_##kind;
    JOBS(JOB)
#undef JOB
} JobRequest;

typedef union JobAnswer {
#define JOB(kind, request, answer, slow) answer as_##kind;
    JOBS(JOB)
#undef JOB
} JobAnswer;

/* Largest request that the controller may send: a piece of a file, or a list of a thousand files that were
 * reported. */
#define FILE_SERVICE_REQUEST_MAX (8u << 20)

/* And what it is answered: all that was reported of a session. */
#define FILE_SERVICE_ANSWER_MAX (96u << 20)
