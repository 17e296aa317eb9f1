/* The supervisor: one session with its branches, at most one call or task at a time. It makes the parts, and
 * hands on what they have for each other:
 *
 *   controller.c (its messages) ──► executor, tasks ──► branches (interpreters, checkpoints)
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
#include "guest/supervisor/browser/browser.h"
#include "guest/supervisor/call/executor.h"
#include "guest/supervisor/command/commands.h"
#include "guest/supervisor/files/files.h"
#include "guest/supervisor/link/link.h"
#include "guest/supervisor/port/dials.h"
#include "guest/supervisor/pip/pip.h"
#include "guest/supervisor/port/outlet.h"
#include "guest/supervisor/command_line.h"
#include "guest/supervisor/task/task.h"
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
    Executor executor;
    Tasks tasks;
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

/* Takes the settings of a welcome; the first welcome starts the interpreter. With `imports` (NULL: none) the
 * guest is a spare, unless it is a session already; `setup` is the code of its template, or absent. The
 * environment is taken. 0, or -EPROTO with a Problem. */
int supervisor_configure(Supervisor *supervisor, Settings *settings, const Value *imports, SetupCode setup,
                         Problem *problem);

/* There is a way to the network from now on. 0, or -EPROTO with a Problem. */
int supervisor_proxy(Supervisor *supervisor, Problem *problem);

/* Makes a spare the session that has this environment, which is taken, and these checkpoints. */
void supervisor_claim(Supervisor *supervisor, Environment *environment, CheckpointMode checkpoint);

/* controller.c */

/* Starts to connect. 0 or a negative errno, logged. */
int controller_connect(Supervisor *supervisor);
void controller_disconnect(Supervisor *supervisor);
