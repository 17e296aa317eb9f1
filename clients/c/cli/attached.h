/* A person, or what is piped in, attached to a process. */
#pragma once

#include "clients/c/cli/processes.h"

typedef struct AttachTarget {
    const char *session;
    const char *process; /* its run_id */
    bool terminal;       /* the process has one, and so have we: what is typed goes to it, key by key */
    bool input;          /* otherwise: standard input goes to it, and its end */
    uint64_t since;      /* where its output begins */
} AttachTarget;

typedef enum AttachEnd {
    ATTACH_ENDED,    /* the process has ended */
    ATTACH_DETACHED, /* the process goes on; asked for */
    ATTACH_HUNG_UP,  /* the process goes on; we are to end */
    ATTACH_FAILED,   /* after a message */
} AttachEnd;

/* Copies until one of them. Its output goes to standard output and standard error. */
AttachEnd attach(const AttachTarget *attachment);

/* The same, and what is said and returned at its end: an exit status, that of the process where it has ended.
 */
int attach_and_tell(const AttachTarget *attachment);
