/* Jobs: what the keeper of files (keeper.h) is asked to do. A request is a message of one of these kinds,
 * with a body of its type; the answer has the same number, and is JOB_DONE with a body of the other type, or
 * JOB_FAILED. Either may come from another process: nothing in it is believed before it is looked at. */
#pragma once

#include <limits.h>

#include "proto/fields.h"

#define SCHEMA_FILE "host/keeper/jobs.def"
#include "proto/schema/as_structs.h"

/* JOB(kind, request, answer, slow): a slow one may take as long as a disk does, and is done on a thread; the
 * others are done at once and in the order they are asked in. */
#define JOBS(JOB)                                                                                            \
    JOB(MAKE, JobMake, JobNothing, false)                                                                    \
    JOB(FILL, JobFill, JobNothing, false)                                                                    \
    JOB(FILL_DISK, JobFill, JobNothing, true)                                                                \
    JOB(WATCH, JobWatch, JobWatched, false)                                                                  \
    JOB(CLAIM, JobClaim, JobWatched, false)                                                                  \
    JOB(ADOPT, JobAdopt, JobNothing, false)                                                                  \
    JOB(REPORTED, JobReported, JobNothing, false)                                                            \
    JOB(BASELINE, JobOf, JobFiles, false)                                                                    \
    JOB(PUBLISH, JobPublish, JobPublished, true)                                                             \
    JOB(ACCEPT, JobPublish, JobPublished, true)                                                              \
    JOB(PUT, JobPut, JobPutDone, true)                                                                       \
    JOB(FORGET_UPLOADS, JobUploads, JobNothing, true)                                                        \
    JOB(READ_PUBLISHED, JobReadPublished, JobGot, true)                                                      \
    JOB(GET, JobGet, JobGot, true)                                                                           \
    JOB(TAKE, JobTake, JobTaken, true)                                                                       \
    JOB(KEEP, JobKeep, JobNothing, false)                                                                    \
    JOB(GIVE_UP, JobOf, JobNothing, false)                                                                   \
    JOB(FIND, JobCheckpoint, JobFound, false)                                                                \
    JOB(DROP, JobCheckpoint, JobNothing, false)                                                              \
    JOB(PRUNE, JobPrune, JobKept, false)                                                                     \
    JOB(STAGE, JobCheckpoint, JobNothing, true)                                                              \
    JOB(UNSTAGE, JobOf, JobNothing, true)                                                                    \
    JOB(RESTORE, JobOf, JobNothing, true)                                                                    \
    JOB(FORK, JobFork, JobNothing, true)                                                                     \
    JOB(TAKE_TEMPLATE, JobTemplate, JobTaken, true)                                                          \
    JOB(PUT_TEMPLATE, JobTemplate, JobNothing, true)                                                         \
    JOB(DROP_TEMPLATE, JobTemplateGone, JobNothing, false)                                                   \
    JOB(SWEEP_TEMPLATES, JobTemplates, JobNothing, false)                                                    \
    JOB(REMOVE, JobOf, JobNothing, false)                                                                    \
    JOB(LEAVE, JobOf, JobNothing, false)                                                                     \
    JOB(SWEEP_REMOVED, JobNothing, JobNothing, false)                                                        \
    JOB(SWEEP, JobNothing, JobNothing, false)                                                                \
    JOB(REVIEW, JobReview, JobReviewed, true)                                                                \
    JOB(PACKAGES_TAKE, JobTakePackages, JobPackages, true)                                                   \
    JOB(PACKAGES_FIND, JobFindPackages, JobPackages, true)                                                   \
    JOB(PACKAGES_TRIM, JobTrimPackages, JobTrimmed, true)                                                    \
    JOB(SYNC, JobOf, JobNothing, true)

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

/* Descriptors that go with an answer, at most. */
#define JOB_DESCRIPTORS 2
