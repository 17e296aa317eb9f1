/* Helper: a process of limpetd's with rights of its own: limpetd itself, executed once more, or a program
 * beside it. Nothing of whoever starts it is in its memory, and nothing of it is at the same address. */
#pragma once

#include "host/privilege/confine.h"
#include "host/ipc/ipc.h"
#include "proto/base/loop.h"

/* Its descriptors besides the standard ones: the socket to whoever started it, then what it is given. */
#define HELPER_FD      3
#define HELPER_FDS_MAX 2u

typedef struct Helper {
    const char *name;         /* of the process, by which main() knows what it is */
    const char *program;      /* NULL: limpetd itself */
    const Account *account;   /* of its rights; NULL: our own */
    const char *log_level;    /* the least that it logs */
    const char *argument;     /* of this helper alone; or NULL */
    char *const *environment; /* NULL: our own */
    int fds[HELPER_FDS_MAX];
    size_t n_fds;
} Helper;

/* Starts it; it ends with us. The socket is its end of what leads to it, and stays the caller's. Where
 * `child` runs already it is killed, and -EBUSY says to ask again. 0 or a negative errno. `on_exit` may be
 * NULL. */
int helper_start(const Helper *helper, Loop *loop, LoopChild *child,
                 void (*on_exit)(LoopChild *child, int status), int socket);

/* Kills it, if it runs; `on_exit` follows. */
void helper_kill(LoopChild *child);

/* Likewise, and waits until it is gone. */
void helper_end(LoopChild *child);

/* ---- in it ---- */

typedef struct HelperOrders {
    pid_t parent;
    Account account;
    bool keeps_account;
    const char *argument; /* or NULL */
} HelperOrders;

/* Reads what helper_start() has given it, with `n_fds` descriptors, and sets up its log under `program`. 0,
 * or -EINVAL where somebody else has started it. */
int helper_begin(HelperOrders *ret, int argc, char **argv, size_t n_fds, const char *program);

/* rights_drop() with the account that it was given. */
int helper_drop(const HelperOrders *orders, Confinement rights, Problem *problem);

/* ---- as its client sees it ---- */

/* HelperProcess: a helper that is there as long as its client: one that ends is started again, at once, and
 * after longer and longer pauses where it ends at once. */
typedef struct HelperProcess HelperProcess;

/* Starts it, or has it started, with its end of what leads to it, which stays the caller's. 0 or a negative
 * errno. One that cannot be started later is one that has ended. */
typedef int HelperProcessStarter(void *userdata, int socket);

typedef struct HelperProcessOps {
    const char *name; /* for the log */
    /* The process is there and knows nothing yet. */
    void (*begun)(HelperProcess *process);
    /* As IpcEvents.message. NULL: it has nothing to say. */
    int (*message)(HelperProcess *process, const Message *message, Descriptors *descriptors);
} HelperProcessOps;

struct HelperProcess {
    const HelperProcessOps *ops;
    Loop *loop;
    HelperProcessStarter *start;
    void *userdata; /* of `start` */
    Ipc ipc;        /* open where it is there */
    LoopTimer retry;
    uint64_t pause, started;
};

void helper_process_init(HelperProcess *process, const HelperProcessOps *ops, Loop *loop,
                         HelperProcessStarter *start, void *userdata);
void helper_process_deinit(HelperProcess *process);

/* Starts it, unless it is there or about to be. */
void helper_process_want(HelperProcess *process);

static inline bool helper_process_is_there(const HelperProcess *process)
{
    return process->ipc.file.loop != NULL;
}
