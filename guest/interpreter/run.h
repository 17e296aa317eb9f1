/* The cell that is running, for everything that speaks in its name: streams, displays, what starts processes.
 * Guarded by the GIL. */
#pragma once

#include "proto/base/base.h"

typedef struct Run {
    uint64_t id;          /* of the `execute` it answers */
    uint64_t number;      /* counts the cells of this process; 0 before the first */
    bool asks;            /* its questions are answered */
    bool active;          /* between run_begin() and run_end() */
    bool rests;           /* the main thread runs tasks of cells between two of them */
    bool forked;          /* this is a child of the interpreter that goes on in Python */
    bool spawned;         /* a child process was started */
    bool had_children;    /* one ever was */
    pid_t process;        /* the interpreter, which a forked child is not */
    uint64_t main_thread; /* its thread state's id */
} Run;

extern Run run;

/* Once, on the main thread. */
int run_init(void);

/* In a copy of the interpreter that is to go on as one. */
void run_adopt(void);

void run_begin(uint64_t id, bool asks);
void run_end(void);

/* A child process is about to be started. */
void run_note_child(void);

/* Returns whether the calling thread may write. Any may while a cell runs, and between two cells all but the
 * main one, unless that runs tasks of cells and not the runtime's work; before the first cell none. */
bool run_admits(void);

/* Returns whether a cell runs, so that displays and questions are its own. */
bool run_is_active(void);
