/* Worker: a few threads for work that reads and writes files, so that the loop never waits for a disk.
 *
 * A job is embedded in its owner. run() is called on some worker thread and must not touch anything the
 * loop thread uses meanwhile; done() is called on the loop thread afterwards. Jobs start in the order they
 * were submitted and may end in any. Threads are started when they are first needed and run at a lower
 * priority than the loop, at the nice value they are made with. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/list.h"
#include "proto/base/loop.h"

typedef struct Worker Worker;
typedef struct WorkerJob WorkerJob;

struct WorkerJob {
    void (*run)(WorkerJob *job);
    void (*done)(WorkerJob *job); /* may free the job, or submit it again */
    List link;
};

/* At most `threads` (at least 1) of them. */
int worker_new(Worker **ret, Loop *loop, unsigned threads, int nice);

/* Waits for everything submitted, then ends the threads. On the loop thread. */
Worker *worker_free(Worker *worker);
DEFINE_CLEANUP(Worker *, worker_free);

/* 0, or a negative errno when no thread at all can be started; the job is then not accepted. */
int worker_submit(Worker *worker, WorkerJob *job, void (*run)(WorkerJob *), void (*done)(WorkerJob *));

/* Blocks until no job is left, calling done() of each: for shutdown. */
void worker_wait(Worker *worker);
