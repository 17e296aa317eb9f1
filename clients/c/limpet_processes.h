/* Processes of a session that run in the background. A part of limpet.h, which includes it.
 *
 * A process belongs to its session: it goes on when the client, the controller or the interpreter is gone,
 * and ends by itself, by a signal, or with the session. `process` is its run_id or its name; for a signal
 * also the number of what a process has left behind. */
#ifndef LIMPET_PROCESSES_H
#define LIMPET_PROCESSES_H

#include "limpet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LIMPET_RUN_ID_SIZE 33 /* bytes of a run_id and its terminator */

/* In characters. */
typedef struct LimpetTerminalSize {
    unsigned rows, columns;
} LimpetTerminalSize;

typedef struct LimpetStart {
    const char *session;
    const char *instance;               /* of LimpetOpened: refuses another life of that name; or NULL */
    LimpetProgram program;              /* stdin_data: what it reads first; more can be sent */
    const char *name;                   /* name for people; or NULL */
    const LimpetTerminalSize *terminal; /* size of its terminal; NULL: pipes */
    const char *run_id;                 /* 32 lower-case hexadecimal digits; NULL: made at random */
} LimpetStart;

/* Starts a program, without a limit of time, and returns once it runs. `ret_run_id` is what it is known by:
 * limpet_result() waits for its record. */
LIMPET_API int limpet_start(LimpetClient *client, const LimpetStart *start,
                            char ret_run_id[LIMPET_RUN_ID_SIZE]);

typedef struct LimpetProcess {
    const char *run_id;  /* NULL of an orphan */
    const char *name;    /* or NULL */
    const char *kind;    /* "process" of limpet_start(), "command" of limpet_exec(), or "orphan" of neither
                            any more */
    uint64_t pid;        /* in the container */
    const char *command; /* its line, or its program and arguments, cut short */
    bool running;
    bool terminal;
    double age;                     /* seconds since it was started; NaN of an orphan */
    bool has_exit_code, has_signal; /* of its end */
    int exit_code, signal;
} LimpetProcess;

typedef struct LimpetProcesses {
    const LimpetProcess *processes; /* the oldest first, orphans last */
    size_t n_processes;
} LimpetProcesses;

/* Lists the processes that run, those that have ended lately, and those that they left behind. *ret is freed
 * with limpet_processes_free(), its JSON with free(). */
LIMPET_API int limpet_processes(LimpetClient *client, const char *session, LimpetProcesses **ret);
LIMPET_API void limpet_processes_free(LimpetProcesses *processes);
LIMPET_API char *limpet_processes_json(const LimpetProcesses *processes);

/* Writes to its standard input or terminal, and with `end` ends that (Ctrl-D in a terminal). Returns when the
 * process has taken it. */
LIMPET_API int limpet_process_send(LimpetClient *client, const char *session, const char *process,
                                   const void *bytes, size_t size, bool end);

/* To its process group; `alone`: to itself. */
LIMPET_API int limpet_process_signal(LimpetClient *client, const char *session, const char *process,
                                     int number, bool alone);

/* Its terminal has another size. */
LIMPET_API int limpet_process_resize(LimpetClient *client, const char *session, const char *process,
                                     const LimpetTerminalSize *size);

/* Bytes that it wrote to one stream: 1, which is also a terminal, or 2. */
typedef struct LimpetPiece {
    int stream;
    const char *bytes;
    size_t size;
} LimpetPiece;

typedef struct LimpetOutput {
    uint64_t since; /* where it begins; more than what was asked for: the rest is not kept any more */
    uint64_t next;  /* where it ends: `since` of the next question */
    bool ended;     /* there will be no more */
    const LimpetPiece *pieces; /* in the order written */
    size_t n_pieces;
} LimpetOutput;

/* Gets the output of a process, from the `since`-th byte of both streams on, waiting at most `timeout`
 * seconds (25 at most) where there is none. *ret is freed with limpet_output_free(). */
LIMPET_API int limpet_process_output(LimpetClient *client, const char *session, const char *process,
                                     uint64_t since, double timeout, LimpetOutput **ret);
LIMPET_API void limpet_output_free(LimpetOutput *output);

/* Connects to a port of TCP on which something in the session listens, at 127.0.0.1 or ::1 of its own. What
 * goes through *ret_fd, which is the caller's, passes neither the controller nor the client. */
LIMPET_API int limpet_connect_port(LimpetClient *client, const char *session, unsigned port, int *ret_fd);

#ifdef __cplusplus
}
#endif

#endif
