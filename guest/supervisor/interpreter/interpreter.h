/* The interpreter's process as the supervisor sees it: a child, its channel, and its two pipes. It is
 * hostile: whatever it says is checked, and it may end or go silent at any moment.
 *
 *   interpreter.c: its life          dialogue.c: what is said to it and by it */
#pragma once

#include <sys/resource.h>

#include "guest/supervisor/interpreter/environment.h"
#include "guest/supervisor/options.h"
#include "guest/supervisor/streams/streams.h"
#include "proto/base/loop.h"
#include "proto/wire.h"

typedef struct Interpreter Interpreter;

typedef enum InterpreterStep {
    INTERPRETER_NONE,
    INTERPRETER_STARTS, /* it is to say `ready` */
    INTERPRETER_READY,
} InterpreterStep;

/* Questions of one kind: each is answered once, in order. Their ids count from 1. */
typedef struct Questions {
    uint64_t asked, answered;
} Questions;

/* Takes an answer. false: it answers nothing. */
bool questions_answered(Questions *questions, uint64_t id);

struct Interpreter {
    Loop *loop;
    InterpreterStep step;
    bool closing;           /* its process is gone, and what is still read are its last words */
    pid_t pid;              /* also its process group; 0: reaped, or a copy that has not told */
    bool copied;            /* from a frozen one, whose pid only `ready` tells */
    bool reaped;            /* has ended by itself */
    bool asked;             /* for a checkpoint, and has not said `checkpointed` */
    Questions listings;     /* `namespace` */
    Questions preparations; /* `prepare` */
    bool divided;           /* the first message of `out` has been sent in part */
    bool spawned;           /* the last cell started processes that may still hold the pipes */
    int channel;            /* -1: closed */
    LoopFile file;
    LoopTimer hangup;
    Buf in, out;
    pid_t sender;     /* of what was read last, as the kernel says; of a copy until it is ready */
    int fds[STREAMS]; /* new write ends that go with the next bytes; -1: none */
    Streams streams;
    Buf complaint;      /* what it wrote to standard error before it was ready */
    double cpu_counted; /* seconds of its CPU time that belong to earlier cells or its start */

    int status;           /* once reaped: as from waitpid */
    double cpu;           /* once reaped or measured: seconds that are not counted yet, */
    uint64_t peak_memory; /* and bytes */

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

/* A new process. `memory` bytes may be asked for in it; 0: any. 0 or a negative errno. It is to say `ready`
 * before anything is sent to it. */
int interpreter_start(Interpreter *interpreter, const Options *options, const Environment *environment,
                      uint64_t memory);

/* A copy of the frozen one behind the channel `frozen`. `id`: of the message. `branched`: the original lives
 * on. 0 or a negative errno; it is to say `ready`. */
int interpreter_copy(Interpreter *interpreter, int frozen, uint64_t id, bool branched);

bool interpreter_is_alive(const Interpreter *interpreter); /* begun, and its end not dealt with */

/* `ready` has come. */
void interpreter_ready(Interpreter *interpreter);

/* `checkpointed` has come. false: it answers nothing. */
bool interpreter_checkpointed(Interpreter *interpreter);

/* `executed` has come: its cell has used so many seconds of CPU time, and may have left processes behind. */
void interpreter_executed(Interpreter *interpreter, double cpu, bool spawned);

/* SIGINT to its process group. */
void interpreter_interrupt(Interpreter *interpreter);

/* To be told of every reaped child. Whether it was the interpreter. */
bool interpreter_reaped(Interpreter *interpreter, pid_t pid, int status, const struct rusage *usage);

/* What it has used so far, before it is killed. */
void interpreter_measure(Interpreter *interpreter);

/* Its process has ended or been killed: takes its last messages and output, and closes all that belonged to
 * it. Whoever killed it has measured it before. */
void interpreter_close(Interpreter *interpreter);

/* dialogue.c */

/* One framed message, which is empty afterwards; when the last cell left children behind, new pipes go with
 * it. It is ready. 0 or a negative errno; that it is gone is no error: of that we hear by itself. */
int interpreter_send(Interpreter *interpreter, Buf *frame);

/* `checkpoint`, with the copy's end of its channel, before everything that is sent from now on; `automatic`:
 * nobody asked for it. 0 or a negative errno: -EBUSY when it has been asked already, or does not read. */
int interpreter_ask_checkpoint(Interpreter *interpreter, int end, bool automatic);

/* Watches its channel. 0 or a negative errno. */
int interpreter_listen(Interpreter *interpreter);
void interpreter_take_last_messages(Interpreter *interpreter);
