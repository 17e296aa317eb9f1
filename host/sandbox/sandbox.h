/* Sandbox: a container with its supervisor and its files. Whoever owns it queues GuestRequests, and is
 * told what becomes of it. sandbox_states.def has its states. */
#pragma once

#include "host/file_service/client/session_files.h"
#include "host/sandbox/guest.h"
#include "host/sandbox/sandboxes.h"
#include "host/config/session_options.h"
#include "host/sandbox/guest_request.h"

typedef struct SessionJournal SessionJournal;
typedef struct DataOpening DataOpening;

/* Contents of a spare until it is assigned; its owner's memory. */
typedef struct SpareSpec {
    Value imports;        /* the array that its interpreter is told */
    Text setup;           /* code that this runs then; absent: none */
    const char *template; /* id of the files of a template that are put into /session; NULL: none */
    const char *packages; /* the set that is mounted in it before its supervisor is answered; NULL: none */
    MemoryImage *memory;  /* with which its interpreter begins; NULL: none */
    bool keeps;           /* otherwise its own is wanted */
} SpareSpec;

typedef enum SandboxState {
#define SANDBOX_STATE(state, awaits) SANDBOX_##state,
#include "host/sandbox/sandbox_states.def"
} SandboxState;

/* Events that a sandbox which is not up yet waits for. */
typedef enum SandboxAwaits {
    AWAITS_CONTAINER = 1,
    AWAITS_SUPERVISOR = 2,
    AWAITS_DATA = 4, /* of one that was a spare */
} SandboxAwaits;

/* Container that cannot be had: how often it is made anew. */
typedef enum SandboxRetry {
    RETRY_ONCE,
    RETRY_NEVER,   /* any more */
    RETRY_IN_ROOM, /* it is, when spares that gave way are gone; and then no more */
} SandboxRetry;

/* Events of a sandbox, told to its owner. NULL where it does nothing about one. */
typedef struct SandboxOwner {
    bool trusts_rules; /* those of its network are whoever's who runs the controller */
    /* The supervisor has connected and been welcomed; again after each reconnection. The owner says when it
     * has heard enough: sandbox_supervisor_ready(). */
    void (*hello)(Sandbox *sandbox, const GuestHello *hello);
    /* A message that is about no request that is SENT; never NULL. -EPROTO with the problem set when no
     * honest supervisor says that. */
    int (*message)(Sandbox *sandbox, const Message *message, Problem *problem);
    /* Its directories are there, and its container is begun. */
    void (*placed)(Sandbox *sandbox);
    /* The sandbox is READY, or SPARE. */
    void (*ready)(Sandbox *sandbox);
    /* The sandbox could not be had; closing follows, or parked for one that was WAKING. */
    void (*failed)(Sandbox *sandbox, const Problem *problem);
    /* A request of this session is over, and nothing runs. */
    void (*rested)(Sandbox *sandbox, Session *session);
    /* The sandbox is CLOSING, and its requests have ended. */
    void (*closing)(Sandbox *sandbox, const char *reason);
    /* There is no container any more, or it is LEFT: ends in sandbox_free(). */
    void (*gone)(Sandbox *sandbox);
    /* The sandbox is PARKED. */
    void (*parked)(Sandbox *sandbox);
} SandboxOwner;

/* Prefix of names that no user gives: of a sandbox for one call, and of a spare. */
#define PRIVATE_MARK "~"

/* User and name that a sandbox is made for, or a spare is assigned to. */
typedef struct SandboxAssignment {
    uid_t user;
    const char *name;
    bool forked;           /* as in Sandbox */
    const char *output_id; /* of an ephemeral one: where it publishes; NULL for others */
    Peer restorer;         /* as in Sandbox */
    const char *packages;  /* the set that it begins with; NULL: none. A spare has none */
    MemoryImage *memory;   /* with which it begins, where it is no spare, or began, where it is forked */
    const int *data;       /* the open directory that the options name; NULL: none is, or it is not open */
} SandboxAssignment;

/* A life of a sandbox or of a branch in it, told apart from others of that name: random digits. */
#define INSTANCE_SIZE 17
/* The name of a set of packages: hexadecimal digits. */
#define PACKAGES_NAME_SIZE 65
bool instance_make(char ret[static INSTANCE_SIZE]);

struct Sandbox {
    Sandboxes *all;
    List link; /* Sandboxes.list */
    SandboxState state;
    unsigned awaits; /* SandboxAwaits */
    const SandboxOwner *owner;
    void *userdata; /* the owner's */
    Session *root;  /* whose it is, of the sessions in it; NULL of a spare. Nothing here looks into it */
    SessionJournal *session_journal; /* what is written down of it. Likewise */

    uid_t user;                        /* whose it is; of a spare the controller's own */
    char name[LIMIT_SESSION_PATH + 1]; /* the root session's, or one of its own */
    char instance[INSTANCE_SIZE];      /* names this life of it */
    double created;                    /* Unix seconds: when it became somebody's */
    double parked;                     /* Unix seconds: when it lost its container, where it is PARKED */
    uint64_t used;                     /* clock_now() when it was last known to do something */
    uint64_t unsettled;                /* the last cell's message: its supervisor keeps the record; 0: none */
    bool ephemeral;                    /* for one call */
    bool loads;                        /* it begins with what another one, or itself, has saved */
    bool forked;                       /* it began as a copy of another one */
    bool passes;                       /* its memory can go through a pipe */
    bool shares;                       /* and need not have what is in an image */
    char ending[64];                   /* why it ends with the call that runs; "": it does not */
    Peer restorer; /* who gives it what was saved, and with whom it ends until then; 0: it is whole */
    SessionOptions options;
    SpareSpec spare_spec; /* of a spare */
    MemoryImage *memory;  /* with which its interpreter has begun, or is to; NULL: none. Its own reference */

    SessionFiles files;
    int data;                          /* directory for its container, until that has started; -1: none */
    DataOpening *opening;              /* of that */
    bool opens_memory;                 /* the image is being opened for it */
    bool making;                       /* its container waits for the files, the directory, or the image */
    char packages[PACKAGES_NAME_SIZE]; /* the set that is mounted in it; "": none */
    unsigned installing;               /* installs for it that are under way */
    bool held; /* exclusive requests wait: there are packages to come before any code */

    Container *container;
    char container_name[64];
    Guest *guest;
    unsigned hellos;       /* of its supervisor */
    uint64_t hellos_since; /* clock_now() when they were last counted from 0 */
    EgressPlace egress;
    LoopTimer start_timer;
    SandboxRetry retry;
    uint64_t oom_kills; /* by the kernel, in this container so far */

    GuestRequest *running;
    List waiting;       /* GuestRequests of LANE_EXCLUSIVE that wait */
    List programs;      /* those of LANE_PROGRAM */
    List queries;       /* those of the other lanes */
    LoopTimer watchdog; /* the supervisor must answer the running request before */
    LoopTimer patience; /* set while something waits for the supervisor to take what was sent */
    CpuYield cpu_yield;
};

/* Begins one for that user and name. `options` is taken over. 0, or negative with the problem set and nothing
 * begun. Nobody is told anything before it returns. */
int sandbox_start(Sandbox **ret, Sandboxes *all, const SandboxAssignment *assignment, SessionOptions *options,
                  const SandboxOwner *owner, Problem *problem);

static inline bool sandbox_is_ending(const Sandbox *sandbox)
{
    return sandbox->state >= SANDBOX_CLOSING;
}

/* Its owner knows all that it waited for of the supervisor. It becomes READY or SPARE when the container is
 * there, too. */
void sandbox_supervisor_ready(Sandbox *sandbox);

/* Ends the requests that wait. */
void sandbox_fail_waiting(Sandbox *sandbox, const Problem *problem);

/* Ends it. */
void sandbox_close(Sandbox *sandbox, const char *reason);

/* Something is wrong with its container. One that is WAKING has its files still, and is parked again; any
 * other ends. */
void sandbox_give_up(Sandbox *sandbox, const Problem *problem);
void sandbox_give_up_for(Sandbox *sandbox, const char *reason);

/* Frees it and leaves all there is of it to the next controller. False, and nothing done, when there is
 * nothing to be adopted yet or any more. */
bool sandbox_leave(Sandbox *sandbox);

/* By its owner, when it is gone. */
void sandbox_free(Sandbox *sandbox);

/* The supervisor refused a request: *ret is why. What has a meaning for clients is passed on; anything else
 * is a fault of ours. 0, or negative with `problem` set, where the message is none. */
int sandbox_refusal(Problem *ret, const Message *message, Problem *problem);

/* Sends a message without fields to the supervisor. 0 or a negative errno. */
int sandbox_send(Sandbox *sandbox, MessageKind kind, uint64_t id);

/* Bytes of memory in use; -errno when unknown. */
int sandbox_memory(const Sandbox *sandbox, uint64_t *ret_bytes);
/* Returns whether the kernel has killed for memory since it was last asked. */
bool sandbox_has_killed(Sandbox *sandbox);

/* Changes what it may reach, as far as that is given. 0, or negative with the problem set. */
int sandbox_set_network(Sandbox *sandbox, const MsgSetNetwork *given, Problem *problem);

/* ---- spares ---- */

/* Begins one for nobody, WARMING. As sandbox_start. */
int sandbox_start_spare(Sandbox **ret, Sandboxes *all, bool ephemeral, SessionOptions *options,
                        const SpareSpec *spec, const SandboxOwner *owner, void *userdata, Problem *problem);

/* A SPARE becomes READY for that user and name, or STARTING, until it has the data; its owner is to be
 * changed. `options` is taken over. 0; -EOPNOTSUPP when it cannot have the data, and is as it was; or
 * negative with the problem set: it is to be closed. */
int sandbox_assign(Sandbox *sandbox, const SandboxAssignment *assignment, SessionOptions *options,
                   Problem *problem);

/* A SPARE becomes READY for its owner, and nobody else: for work of the controller's own. 0 or a negative
 * errno. */
int sandbox_activate(Sandbox *sandbox);

/* ---- without a container ---- */

/* Returns whether its memory is saved without the image that it may have begun with, which stays. */
bool sandbox_shares_image(const Sandbox *sandbox);

/* Ends the container of one that is READY, and in which nothing is in use: at once, or once it has been
 * SAVING, until sandbox_saved(), or until that takes too long; the owner hears its supervisor meanwhile.
 * False, and nothing done, where that cannot be written down. */
bool sandbox_park(Sandbox *sandbox, bool saving);
/* Ends the container of one that is SAVING or RETURNING; does nothing about any other. */
void sandbox_saved(Sandbox *sandbox);
/* Makes one that is SAVING, and is no earlier controller's, RETURNING: READY once its supervisor answers. */
void sandbox_call_back(Sandbox *sandbox);
void sandbox_returned(Sandbox *sandbox);
/* The controller ends: what is on its way to be PARKED, or back from that, will be PARKED; anything else is
 * closed. */
void sandbox_shut_down(Sandbox *sandbox);
/* A PARKED one gets a container again, and another owner, who is told as by sandbox_start. 0, or negative
 * with the problem set, and it is as it was. */
int sandbox_wake(Sandbox *sandbox, const SandboxOwner *owner, Problem *problem);

/* ---- taking over from an earlier controller ---- */

/* Makes a sandbox that is ADOPTING. `options` is taken over. NULL when out of memory. */
Sandbox *sandbox_restore(Sandboxes *all, uid_t user, const char *name, const char *instance, bool ephemeral,
                         double created, SessionOptions *options, const SandboxOwner *owner, void *userdata);
/* Its files, `id`, and `link`, where its supervisor connects. Whatever of them is gone, what is there is the
 * sandbox's. `mounts`: a disk that is not mounted is. 0, or negative with the problem set. */
int sandbox_restore_files(Sandbox *sandbox, const char *id, bool mounts, Problem *problem);
int sandbox_restore_link(Sandbox *sandbox, const char *link, const uint8_t *secret, Problem *problem);
/* Its container; 0, or negative with the problem set, and the engine knows nothing of it. */
int sandbox_restore_container(Sandbox *sandbox, Problem *problem);
/* Makes a restored sandbox PARKED. Its container may be there all the same, if the place where its supervisor
 * connects is: then it is SAVING first. */
void sandbox_restore_parked(Sandbox *sandbox);
/* Frees one whose container was not restored. */
void sandbox_abandon(Sandbox *sandbox);

/* ---- requests ---- */

/* Queues one whose session is not closing; it may be sent at once. 0, or -EBUSY, and nothing done, when too
 * many queries wait. */
int sandbox_queue(Sandbox *sandbox, GuestRequest *request);
void sandbox_queue_first(Sandbox *sandbox, GuestRequest *request); /* before all that wait; starts nothing */
void sandbox_next(Sandbox *sandbox);                               /* starts the next one when nothing runs */
/* Runs one that an earlier controller had sent. */
void sandbox_resume_request(Sandbox *sandbox, GuestRequest *request);
/* Takes out a request, which neither waits nor runs any more. Returns whether it ran. */
bool sandbox_take_out(GuestRequest *request);
/* Ends an exclusive request that ran and has been taken out: the next one begins. */
void sandbox_exclusive_over(Sandbox *sandbox, Session *session);
/* Ends a program that has been taken out. */
void sandbox_program_over(Sandbox *sandbox, Session *session);
void sandbox_start_programs(Sandbox *sandbox);
/* Takes out a query that was answered or has failed, and sends the next one. Its owner frees it. */
void sandbox_query_over(GuestRequest *request);

/* Ends those of one session. One that runs and outlives it goes on. */
void sandbox_end_requests(Sandbox *sandbox, const Session *session, const char *reason);
/* Ends what runs of that session. */
void sandbox_fail_running(Sandbox *sandbox, const Session *session, const Problem *problem);

size_t sandbox_count_programs(const Sandbox *sandbox);
/* Returns whether a program is in use: one of that session, or of any (NULL). */
bool sandbox_has_program_in_use(const Sandbox *sandbox, const Session *session);
size_t sandbox_count_waiting(const Sandbox *sandbox, const Session *session);
bool sandbox_is_busy(const Sandbox *sandbox);  /* something runs or waits */
bool sandbox_is_quiet(const Sandbox *sandbox); /* nothing does, whoever uses it */
/* Returns the exclusive request that runs, if it is of that session and of that kind, or NULL. */
GuestRequest *sandbox_running(const Sandbox *sandbox, const Session *session, const GuestRequestOps *kind);

/* Has the supervisor end the exclusive request that runs, if one does. */
void sandbox_interrupt(Sandbox *sandbox);

/* The supervisor must answer the running request within that. */
void sandbox_watch(Sandbox *sandbox, double seconds);
void sandbox_unwatch(Sandbox *sandbox);
