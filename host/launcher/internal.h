/* Shared by launcher.c (the process) and service.c (its service to the controller). */
#pragma once

#include "host/files/worker.h"
#include "host/launcher/containers.h"
#include "host/launcher/launcher.h"
#include "host/link/unix_socket.h"
#include "host/net/start.h"
#include "host/ipc/ipc.h"

/* For making disks, which is mostly waiting: as many as the files worker has. */
#define MAKER_THREADS 4

typedef struct Launcher {
    const LauncherConfig *config;
    Loop *loop;
    LoopSignals signals;
    LoopTimer log_timer;
    Sources sources;
    Worker *makers;
    size_t making;  /* disks */
    size_t opening; /* directories of users */

    Engine *engine; /* opened by the first controller's first request, as the next two */
    UnixSocket clients;
    char no_disks[PROBLEM_TEXT_MAX]; /* why; "" where there are */
    LauncherContainers containers;

    Ipc ipc; /* to the controller */
    LoopChild child;
    int status; /* of its end */
    Ipc files;  /* to the files worker */
    LoopChild files_worker;
    LoopChild egress; /* started for the controller */
    NetDoor door;     /* for the next process */
    LoopChild net;
    bool begun;      /* the controller has said so: the first of all that it says */
    bool ready;      /* one was */
    bool stopping;   /* the launcher was told to end */
    Problem problem; /* why it ends otherwise */
    unsigned deaths;
    uint64_t counted_since;
} Launcher;

/* service.c: makes what the two processes work in. What an earlier limpetd of one process has left there
 * is given away with it. 0 or a negative errno. */
int launcher_make_directories(const Launcher *launcher);

/* Tells both processes what their standard error is from now on. */
void launcher_say_log(Launcher *launcher);

int launcher_on_message(Ipc *ipc, const Message *message, Descriptors *descriptors);
/* The same of the files worker. */
int launcher_on_files_message(Ipc *ipc, const Message *message, Descriptors *descriptors);
