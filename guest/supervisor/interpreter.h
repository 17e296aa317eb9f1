/* The interpreter's process as the supervisor sees it: a child, its channel, and its two pipes. It is
 * hostile: whatever it says is checked, and it may end or go silent at any moment. */
#pragma once

#include <sys/resource.h>

#include "guest/supervisor/environment.h"
#include "guest/supervisor/options.h"
#include "guest/supervisor/streams.h"
#include "proto/base/loop.h"
#include "proto/wire.h"

typedef struct Interpreter Interpreter;

struct Interpreter {
    Loop *loop;
    pid_t pid;  /* also its process group; 0: there is none, or it has been reaped */
    bool alive; /* started and not yet ended by interpreter_end() */
    bool ready;
    bool left_children; /* the last cell started processes that may still hold the pipes */
    int channel;        /* -1: closed */
    LoopFile file;
    LoopTimer hangup;
    Buf in, out;
    int fds[STREAMS]; /* new write ends that go with the next bytes; -1: none */
    Streams streams;
    Buf complaint;      /* what it wrote to standard error before it was ready */
    double cpu_counted; /* seconds of its CPU time that belong to earlier cells or its start */

    int status; /* once reaped: as from waitpid, and what it used */
    struct rusage usage;

    /* A message, valid envelope. Negative with a Problem: it breaks the protocol, and on_fault follows. */
    int (*on_message)(Interpreter *interpreter, const Message *message, Problem *problem);
    /* What it wrote to stream 1 or 2 since it was ready. */
    void (*on_output)(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n);
    /* It cannot be used any more: to be ended. */
    void (*on_fault)(Interpreter *interpreter, const char *reason);
};

/* The callbacks are set by the owner afterwards. */
void interpreter_init(Interpreter *interpreter, Loop *loop);
void interpreter_deinit(Interpreter *interpreter);

/* 0 or a negative errno. It is to say `ready` before anything is sent to it. */
int interpreter_start(Interpreter *interpreter, const Options *options, const Environment *environment);

/* `ready` has come: what waits is sent. */
void interpreter_ready(Interpreter *interpreter);

/* Queues a cell; it is sent when the interpreter is ready. When the last cell left children behind this one
 * gets new pipes. 0 or a negative errno. */
int interpreter_execute(Interpreter *interpreter, Text code, Text run_id, uint64_t execution_count);

/* Takes back a cell that waits for `ready`. */
void interpreter_forget(Interpreter *interpreter);

/* SIGINT to its process group. */
void interpreter_interrupt(Interpreter *interpreter);

/* To be told of every reaped child. Whether it was the interpreter. */
bool interpreter_reaped(Interpreter *interpreter, pid_t pid, int status, const struct rusage *usage);

/* Kills it and everything below the supervisor, takes its last messages and output, and closes all that
 * belonged to it. Bounded in time; `status` and `usage` tell afterwards how it ended. */
void interpreter_end(Interpreter *interpreter);
