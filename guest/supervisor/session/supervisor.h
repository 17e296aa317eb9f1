/* The supervisor: one session with its branches, at most one call or order at a time. It makes the parts, and
 * hands on what they have for each other:
 *
 *   the controller's messages ──► calls, orders ──► branches (interpreters, checkpoints)
 *                               ├─► warm-up ───────────┘
 *                               ├─► files (its process)
 *                               ├─► commands
 *                               ├─► dials
 *                               ├─► pip
 *                               └─► outlet
 * and the browser, which code asks for.
 */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/services/browser.h"
#include "guest/supervisor/call/call.h"
#include "guest/supervisor/command/command.h"
#include "guest/supervisor/services/files.h"
#include "guest/supervisor/link/link.h"
#include "guest/supervisor/services/ports.h"
#include "guest/supervisor/services/pip.h"
#include "guest/supervisor/command_line.h"
#include "guest/supervisor/order/order.h"
#include "guest/supervisor/session/warmup.h"

/* Settings of the controller's welcome. */
typedef struct Settings {
    Environment environment;
    uint64_t output_limit, spill_limit;
    CheckpointMode checkpoint;
    uint64_t checkpoint_budget;
    uint64_t memory;
    double orphan_timeout; /* seconds */
} Settings;

typedef struct Supervisor {
    Loop *loop;
    const CommandLine *command_line;
    Link link;
    LoopTimer orphan; /* set while no controller has welcomed us */
    LoopSignals signals;
    LoopIdle wake;

    Branches branches;
    Calls calls;
    Orders orders;
    Warmup warmup;
    FilesProcess files;
    Commands commands;
    Dials dials;
    Browser browser;
    Pip pip;
    Outlet outlet;

    bool configured; /* at least once */
    Settings settings;
} Supervisor;

/* The current directory is the link directory. SIGCHLD and SIGTERM are taken over. `supervisor` and
 * `command_line` stay where they are. 0 or a negative errno, logged. */
int supervisor_init(Supervisor *supervisor, Loop *loop, const CommandLine *command_line);

/* Ends all processes below. */
void supervisor_deinit(Supervisor *supervisor);
