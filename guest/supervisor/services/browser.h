/* Browser: the one program beside the interpreters that all code of the session may ask for, at a socket of
 * the sandbox. It is started when somebody asks first, as a user of its own, and what ends an interpreter
 * leaves it alone; when it ends, the next who asks gets another one.
 *
 * Whoever connects is told one line, once it is known: `at URL`, where the browser is controlled (the Chrome
 * DevTools Protocol, on the container's loopback), or `failed REASON`. */
#pragma once

#include "guest/supervisor/command_line.h"
#include "guest/supervisor/interpreter/environment.h"
#include "guest/supervisor/streams/pipes.h"

#define BROWSER_ASKERS 32 /* answered at once; others wait to be accepted */
#define BROWSER_LINE   512

typedef struct Browser {
    Loop *loop;
    const CommandLine *command_line;
    const Environment *environment; /* of the session */
    int listener;                   /* -1: nobody can ask */
    LoopFile file;
    int askers[BROWSER_ASKERS];
    size_t asking;

    pid_t pid; /* 0: it does not run */
    PipeReader said;
    LoopTimer limit;         /* set until it is ready */
    char line[BROWSER_LINE]; /* its output, until the line is whole */
    size_t size;
    char last[BROWSER_LINE]; /* the last line that was */
    char url[BROWSER_LINE];  /* "": it is not ready */
} Browser;

/* All that is given outlives it. Where its socket cannot be, the session has no browser. */
void browser_init(Browser *browser, Loop *loop, const CommandLine *command_line,
                  const Environment *environment);
void browser_deinit(Browser *browser); /* the process has been ended before */

/* A child has been reaped. */
void browser_reaped(Browser *browser, pid_t pid, int status);
