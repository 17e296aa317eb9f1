/* What put and get share: file work of a request, done on a worker thread so that the loop waits for no disk.
 */
#pragma once

#include "host/files/transfer.h"
#include "host/front/ops.h"

typedef struct TransferJob TransferJob;

struct TransferJob {
    WorkerJob job;
    Request *request;
    bool (*work)(TransferJob *job); /* on the worker thread; false with the problem set */
    int dirfd;                      /* the session's directory, our own descriptor */
    bool isolated;                  /* the interpreter has a uid of its own */
    char *path;
    uint64_t offset, size;
    Buf data; /* what goes in or came out */
    bool last;
    bool descriptor; /* one is wanted */
    int passed;      /* it; or -1 */
    Buf reply;
    Problem problem;
};

/* Begins the job and owns the request from now on. Everything in `job` is copied; its data is taken over. */
void transfer_begin(Front *front, Session *session, const TransferJob *job, Text path);
