/* Sandbox: a container with its supervisor and its files, and the sessions that live in it: the one it was
 * made for, the trunk, and that one's branches. Whatever they ask for, it does one thing at a time (Turn).
 * One that was made for nobody yet is a spare (pool.h).
 *
 *   STARTING ── container started, guest said hello ──► READY ── close, ttl, gone ──► CLOSING ──► freed
 *      └──────────────────── could not be started ─────────────────────────────────────►┘ */
#pragma once

#include "host/controller.h"
#include "host/engine/engine.h"
#include "host/files/artifacts.h"
#include "host/files/sessiondir.h"
#include "host/guest.h"
#include "host/journal.h"
#include "host/order.h"
#include "host/session_options.h"
#include "host/turn.h"

typedef struct Adoption Adoption;
typedef struct Sandbox Sandbox;
typedef struct Spare Spare;

typedef enum SandboxState {
    SANDBOX_STARTING,
    SANDBOX_READY,
    SANDBOX_CLOSING,
} SandboxState;

/* The making of its directories, as far as a thread does it; see sandbox_places.c. */
typedef struct SandboxPlaces {
    Sandbox *sandbox;
    WorkerJob job;
    bool making;
    void (*made)(Sandbox *sandbox, const Problem *failure);
    int result;
    Problem problem;
} SandboxPlaces;

struct Sandbox {
    Controller *controller;
    List link; /* Controller.sandboxes */
    SandboxState state;
    bool ephemeral; /* for one call */
    Spare *spare;   /* NULL unless it is one */
    SessionOptions options;
    Session *trunk;
    List sessions; /* Session.in_sandbox, the trunk first */
    List former;   /* FormerBranch, the oldest first */
    Journal journal;
    bool left;          /* to the next controller */
    Adoption *adoption; /* NULL unless it is being taken over from an earlier controller */

    SessionDir directory;
    SandboxPlaces places;
    Artifacts *artifacts;      /* of /session/artifacts */
    Artifacts *work_artifacts; /* of /work/artifacts, ephemeral ones only */

    Container *container;
    char container_name[64];
    bool container_started;
    bool guest_ready;
    Guest *guest;
    LoopTimer start_timer;
    bool retried;       /* its container could not be made once */
    uint64_t oom_kills; /* by the kernel, in this container so far */

    Turn *running;
    Courtesy courtesy;
    List turns;         /* Turn.link: what waits */
    LoopTimer watchdog; /* the guest must answer the running turn before */
};

/* Begins one for `trunk`, whose name and instance are set. `options` is taken over. `output_id` names where
 * an ephemeral one publishes, NULL for others. 0, or negative with the problem set and nothing begun. */
int sandbox_start(Controller *controller, Session *trunk, const char *output_id, SessionOptions *options,
                  Problem *problem);

/* Queues a turn of a session that is not closing. */
void sandbox_queue(Sandbox *sandbox, Turn *turn);

/* Ends it with all of its sessions: what runs ends as `failed`, what waits with SessionClosed. */
void sandbox_close(Sandbox *sandbox, const char *reason);

/* Frees it and leaves all there is of it to the next controller. Whoever waits for a call asks that one;
 * other requests end with Unavailable. False, and nothing done, when there is nothing to be adopted yet or
 * any more. */
bool sandbox_leave(Sandbox *sandbox);

/* The number of the next message to a guest. Later than any that a controller before us used. */
uint64_t sandbox_next_number(Controller *controller);

/* The session that has this number, 0 for the trunk; NULL when none has. */
Session *sandbox_find_branch(const Sandbox *sandbox, uint64_t branch);

/* The name of a branch, also of one that is closed and of which checkpoints may be kept. */
#define BRANCH_NAME_SIZE (LIMIT_SESSION_PATH + 24)
const char *sandbox_branch_name(const Sandbox *sandbox, uint64_t branch,
                                char buffer[static BRANCH_NAME_SIZE]);
