/* What orders do with the files of a sandbox: the copies of /session that are kept with checkpoints. The
 * copying is done on a worker thread, while the order has its turn and nothing else runs. Jobs of one sandbox
 * are done one after the other, also when an order has abandoned its own and the next one has begun another.
 */
#pragma once

#include "host/files/snapshot.h"
#include "host/session/order.h"

typedef struct FilesJob FilesJob;

struct FilesJob {
    Work work; /* of the order */
    WorkerJob job;
    int store; /* handles of its own */
    int files;
    uint64_t budget;
    uint64_t bytes;
    char entry[SNAPSHOT_ENTRY_SIZE];
    Problem problem;
    void (*run)(FilesJob *job);                /* on the worker thread */
    void (*then)(Order *order, FilesJob *job); /* on the loop thread, unless abandoned; owns the job */
};

/* NULL, with the problem set, when there is no store of checkpoints' files or no memory. */
FilesJob *files_job_new(Order *order, bool make_store, Problem *problem);
FilesJob *files_job_free(FilesJob *job);

/* 0, or negative with the problem set and the job freed. */
int files_job_begin(FilesJob *job, void (*run)(FilesJob *job), void (*then)(Order *order, FilesJob *job),
                    Problem *problem);

/* The snapshot of a checkpoint, by id or name. */
bool checkpoint_files_find(const Sandbox *sandbox, Text checkpoint, char ret_entry[SNAPSHOT_ENTRY_SIZE]);
void checkpoint_files_drop(Sandbox *sandbox, Text checkpoint);
/* Removes those whose checkpoint is not among these, which are as the supervisor lists them. */
void checkpoint_files_prune(Sandbox *sandbox, const Value *checkpoints);

/* A checkpoint as clients are told of it: `name`, which it may point to, stands for its branch. */
MsgCheckpoint checkpoint_say(const Session *trunk, const MsgGuestCheckpoint *said,
                             char name[static BRANCH_NAME_SIZE]);
