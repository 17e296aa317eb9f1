/* What launcher.c (the process) and service.c (what it does for the controller) share. */
#pragma once

#include "host/files/worker.h"
#include "host/launcher/launcher.h"
#include "host/launcher/wards.h"
#include "host/link/unix_socket.h"
#include "host/privilege/rpc.h"

/* For making disks, which is mostly waiting. */
#define MAKER_THREADS 2

typedef struct Launcher {
    const LauncherConfig *config;
    Loop *loop;
    LoopSignals signals;
    LoopTimer log_timer;
    Sources sources;
    Worker *makers;
    size_t making; /* disks */

    Engine *engine; /* opened by the first controller's first demand, as the next two */
    UnixSocket clients;
    char no_disks[PROBLEM_TEXT_MAX]; /* why; "" where there are */
    Wards wards;

    Rpc rpc; /* to the controller */
    LoopChild child;
    int status;      /* of its end */
    bool begun;      /* it has said so: the first of all that it says */
    bool ready;      /* one was */
    bool stopping;   /* the launcher was told to end */
    Problem problem; /* why it ends otherwise */
    unsigned deaths;
    uint64_t counted_since;
} Launcher;

/* Tells the controller what its standard error is from now on. */
void launcher_say_log(Launcher *launcher);

int launcher_on_message(Rpc *rpc, const Message *message, Descriptors *descriptors);
