/* The interpreter's process as the supervisor sees it: a child, its channel, and its two pipes. It is
 * hostile: whatever it says is checked, and it may end or go silent at any moment. */
#pragma once

#include <sys/resource.h>

#include "guest/supervisor/command_line.h"
#include "guest/supervisor/interpreter/environment.h"
#include "guest/supervisor/streams/streams.h"
#include "proto/base/loop.h"
#include "proto/schema.h"
#include "proto/wire.h"

typedef struct Interpreter Interpreter;

/* Inquiries of one kind: each is answered once, in order. Their ids count from 1. */
typedef struct Inquiries {
    uint64_t asked, answered;
} Inquiries;

/* Takes an answer. false: it answers nothing. */
bool inquiries_answered(Inquiries *inquiries, uint64_t id);

struct Interpreter {
    Loop *loop;
    pid_t pid; /* the process and its group; 0: a copy, of which only `ready` tells it; negative: reaped */
    Inquiries listings;     /* `namespace` */
    Inquiries moves;        /* `save` and `load` */
    Inquiries preparations; /* `prepare` */
    bool spawned;           /* the last cell started processes that may still hold the pipes */
    int channel;            /* -1: there is no interpreter */
    LoopFile file;
    Buf in, out;
    pid_t sender; /* who wrote what was read last, as the kernel says; known of a copy until it is ready */
    int fds[STREAMS]; /* new write ends of its pipes, which go with the next bytes; -1: none */
    Streams streams;
    double cpu_counted; /* seconds of CPU time that belong to earlier cells or to the start */

    int status;           /* as from waitpid, once it is reaped */
    double cpu;           /* CPU seconds that are not counted yet, once it is reaped or measured */
    uint64_t peak_memory; /* bytes, likewise */

    /* A message has come; its envelope is valid. Negative with a Problem: it breaks the protocol, and
     * on_fault follows. */
    int (*on_message)(Interpreter *interpreter, const Message *message, Problem *problem);
    /* The interpreter has written to stream 1 or 2. */
    void (*on_output)(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n);
    /* A child of an earlier cell has written to the stream 1 or 2 of that. */
    void (*on_late)(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n);
    /* Its channel has ended. Its process ends, or has been replaced. */
    void (*on_hangup)(Interpreter *interpreter);
    /* The interpreter cannot be used any more. The owner ends it. */
    void (*on_fault)(Interpreter *interpreter, const char *reason);
};

/* The callbacks are set by the owner afterwards. */
void interpreter_init(Interpreter *interpreter, Loop *loop);
void interpreter_deinit(Interpreter *interpreter);

/* Begins a new process, which may ask for `memory` bytes (0: any). 0 or a negative errno. Nothing is sent to
 * it before it says `ready`. */
int interpreter_start(Interpreter *interpreter, const CommandLine *command_line,
                      const Environment *environment, uint64_t memory);

/* KeptMemory: where the memory of a frozen copy is. */
typedef struct KeptMemory {
    const char *file; /* where nothing was passed */
    int passed;       /* -1: nothing */
    int image;        /* that it has begun with, and goes with it; -1: none */
} KeptMemory;

/* Starts a process that becomes the frozen copy, and says so, or why it cannot, on the channel of which `end`
 * is its end. The pid, or a negative errno. */
pid_t interpreter_become(const CommandLine *command_line, const KeptMemory *memory, int end);

/* Asks the frozen one behind the channel `frozen` for a copy of itself, with a message of that id.
 * `branched`: the original lives on. 0 or a negative errno. Nothing is sent to it before it says `ready`. */
int interpreter_copy(Interpreter *interpreter, int frozen, uint64_t id, const MsgRestore *restore);

/* Returns whether it has begun and is not closed. */
static inline bool interpreter_is_alive(const Interpreter *interpreter)
{
    return interpreter->channel >= 0;
}

/* Returns whether its process has ended by itself. */
static inline bool interpreter_has_ended(const Interpreter *interpreter)
{
    return interpreter->pid < 0;
}

/* `ready` has come. */
void interpreter_ready(Interpreter *interpreter);

/* `executed` has come: its cell has used so many seconds of CPU time, and may have left processes behind. */
void interpreter_executed(Interpreter *interpreter, double cpu, bool spawned);

/* SIGINT to its process group. */
void interpreter_interrupt(Interpreter *interpreter);

/* A child has been reaped. Returns whether it was the interpreter. */
bool interpreter_reaped(Interpreter *interpreter, pid_t pid, int status, const struct rusage *usage);

/* Measures what it has used so far, before it is killed. */
void interpreter_measure(Interpreter *interpreter);

/* Takes the last messages and output of a process that has ended or been killed, and closes all that belonged
 * to it. Whoever killed it has measured it before. */
void interpreter_close(Interpreter *interpreter);

/* Sends a framed message to a ready interpreter; the frame is empty afterwards. New pipes go with it when the
 * last cell left children behind. 0 or a negative errno. That the interpreter is gone is no error here: its
 * end is told by itself. */
int interpreter_send(Interpreter *interpreter, Buf *frame);

/* Sends `checkpoint`, with the copy's end of its channel, before everything that is sent from now on.
 * `automatic`: nobody asked for it. 0 or a negative errno, -EBUSY when it does not read. */
int interpreter_ask_checkpoint(Interpreter *interpreter, int end, bool automatic);
