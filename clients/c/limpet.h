/* liblimpet: Python that stays alive between calls, in a container, from C.
 *
 *     LimpetClient *client = limpet_new();
 *     LimpetResult *result = NULL;
 *     LimpetRun run = {.session = "a", .code = "print(x + 1)"};
 *
 *     if (limpet_connect(client, NULL) || limpet_open(client, "a", NULL, NULL) ||
 *         limpet_run(client, &run, &result))
 *         fprintf(stderr, "%s: %s\n", limpet_error(client)->name, limpet_error(client)->message);
 *     else
 *         fputs(result->stdout_text, stdout);
 *     limpet_result_free(result);
 *     limpet_free(client);
 *
 * Errors. Every function that can fail returns 0, or one of the numbers of LimpetErrorNumber; limpet_error()
 * then has the name and a sentence that says what to do. A Python error, a timeout or a crash of the code is
 * not an error here: it is a result, with its status. Out parameters are untouched on failure.
 *
 * Ownership. What the library returns through a pointer to a pointer belongs to the caller, who frees it with
 * the function named there; the strings inside live as long as it does. What the caller passes in is only
 * read during the call. The free functions accept NULL.
 *
 * Names and units. A branch is named as "a/try", after its origin. Times are seconds, points in time Unix
 * seconds, sizes bytes. Text is UTF-8 and terminated, with its size where a zero byte may be in it.
 *
 * Threads. A client, and what it returned, is used by one thread at a time; different clients are
 * independent. Only limpet_interrupt_call() may come from any thread, and from a signal handler. The library
 * has no threads but for tcp://, installs no signal handler and never raises SIGPIPE. */
#ifndef LIMPET_H
#define LIMPET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limpet_errors.h"

#if defined(__GNUC__)
#define LIMPET_API __attribute__((visibility("default")))
#else
#define LIMPET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

typedef struct LimpetError {
    int number;          /* 0: the last call succeeded */
    const char *name;    /* "NoSuchSession"; never NULL */
    const char *message; /* one sentence; never NULL */
} LimpetError;

/* ---- Client ---- */

typedef struct LimpetClient LimpetClient;

/* Makes a client that is not connected; NULL when out of memory or descriptors. What runs goes on when it is
 * freed. */
LIMPET_API LimpetClient *limpet_new(void);
LIMPET_API void limpet_free(LimpetClient *client);

/* The outcome of the client's last call; valid until its next one. */
LIMPET_API const LimpetError *limpet_error(const LimpetClient *client);

/* Connects to the controller and says hello. `socket` is the path of its socket; NULL means $LIMPET_SOCKET,
 * for root /run/limpet/limpet.sock, otherwise $XDG_RUNTIME_DIR/limpet/limpet.sock, without that
 * limpet-UID/limpet.sock under $TMPDIR or /tmp, where the directory must belong to the caller alone.
 * When nothing listens there, and it was not named, root's controller is used where the caller may use it.
 * Where there is none a controller is started: `limpetd --detach`, found by $LIMPETD, beside the
 * running program, or in $PATH. LIMPET_AUTOSTART=0 in the environment or limpet_set_autostart(client, false)
 * forbid it.
 * tcp://HOST:PORT is a controller on another machine. $LIMPET_KEY is the file of the client's keys, and
 * $LIMPET_SERVER_KEY the public key of the controller, without which nobody is talked to; libzmq is loaded
 * for it, which has threads of its own. exec:COMMAND, ssh://[USER@]HOST[:PORT], docker://CONTEXT or
 * docker://HOST (as tcp://HOST:PORT), and kubernetes://[CONTEXT/]NAMESPACE are reached by a command, whose
 * standard streams are the connection: `limpet dial-stdio` there. It is a child of the caller. Later calls
 * reconnect by themselves (starting a controller again where that is allowed) for at most 30 s, or
 * limpet_set_reconnect_timeout(), and then fail with LIMPET_UNAVAILABLE. */
LIMPET_API int limpet_connect(LimpetClient *client, const char *socket);
LIMPET_API void limpet_set_autostart(LimpetClient *client, bool allowed);
LIMPET_API void limpet_set_reconnect_timeout(LimpetClient *client, double seconds);

/* Names the directory to which artifacts of a controller on another machine are copied before a call returns,
 * each session's to one below it; the result's host_path then names these files. NULL leaves the paths of the
 * other machine. Without this it is $LIMPET_ARTIFACTS ("0": none), or limpet-artifacts. */
LIMPET_API int limpet_set_artifacts(LimpetClient *client, const char *directory);

/* Has `tell` called while these artifacts are copied, with the path in the container, the bytes that have
 * been copied, and those of the whole file. It must not use the client. NULL: nobody is told. */
typedef void LimpetOnArtifact(void *context, const char *path, uint64_t done, uint64_t whole);
LIMPET_API void limpet_set_artifacts_progress(LimpetClient *client, LimpetOnArtifact *tell, void *context);

/* The controller as it described itself at the last connection; owned by the client. */
typedef struct LimpetController {
    const char *peer; /* "limpetd/0.1.0" */
    int64_t pid;
    const char *engine;  /* "oci", "docker" or "local" */
    const char *image;   /* the default image; NULL when there is none */
    const char *warning; /* what a person should know once, as that the engine does not isolate; or NULL */
    const char *const *features; /* names of what it can do, of which a client may know only some */
    size_t n_features;
} LimpetController;

LIMPET_API const LimpetController *limpet_controller(const LimpetClient *client);

/* Ends every session and the controller; with `keep` sessions are the next controller's. Starts none. */
LIMPET_API int limpet_shutdown(LimpetClient *client, bool keep);

/* ---- Sessions ---- */

#define LIMPET_FOREVER (-1.0)

/* A member that is zero or NULL is not given: the controller's default holds, or what the session has. */
typedef struct LimpetOptions {
    double timeout;         /* of a call that names none */
    const char *memory;     /* of the container: bytes, or as "512m" */
    double cpus;            /* may be a fraction */
    uint64_t pids;          /* processes and threads */
    const char *disk;       /* what /session may hold: bytes, or as "512m" */
    uint64_t files;         /* files, directories and links there */
    const char *data;       /* absolute path of a directory to read at /data, which limpet_open() copies to a
                               controller on another machine; or host:PATH of the controller's machine */
    const char *const *env; /* "NAME=value" strings, then NULL */
    double ttl;             /* an idle session is saved or closed after it; LIMPET_FOREVER: never */
    const char *ttl_action; /* "save" (default) or "close": then; what is saved is woken when it is used */
    const char *network;    /* "none", "bridge" or "host" */
    const char *const *allow;             /* "host:port" strings, then NULL: what it may connect to */
    const struct LimpetBinding *bindings; /* then one whose name is NULL */
    const char *image;
    const char *checkpoint; /* "auto", "always" or "off": when checkpoints are taken by themselves */
    const char *packages;   /* to be installed before it opens: requirements, one a line */
    const char *pip;        /* what pip may do inside: "refuse", "allow", or names with commas */
    const char *build;      /* packages without a wheel: "refuse", or "allow" that they are built */
#ifdef __cplusplus
    const char *template_; /* the next, whose name is a word of C++ */
#else
    const char *template; /* what the session begins from, see limpet_templates.h */
#endif
} LimpetOptions;

typedef struct LimpetOpened {
    char session[136];
    char instance[72]; /* names this life of the session */
    char engine[16];
    bool created;          /* false: it was there and is attached to */
    double ttl;            /* an idle session ends after it; or LIMPET_FOREVER */
    char not_enforced[64]; /* limits that nothing on its machine holds it to: options, by ", "; or "" */
} LimpetOpened;

/* Makes the session, or attaches to it when it exists: LIMPET_OPTIONS_DIFFER when options are given that it
 * was not made with. Returns when its interpreter answers. `options` and `opened` may be NULL. */
LIMPET_API int limpet_open(LimpetClient *client, const char *session, const LimpetOptions *options,
                           LimpetOpened *opened);

/* Attaches to a session or branch that is open: LIMPET_NO_SUCH_SESSION when there is none. */
LIMPET_API int limpet_attach(LimpetClient *client, const char *session, LimpetOpened *opened);

/* Interrupts the running call of a session, from any client; *interrupted (may be NULL): whether there was
 * one. */
LIMPET_API int limpet_interrupt(LimpetClient *client, const char *session, bool *interrupted);

/* Ends a running call and starts a new interpreter; /session is kept. *epoch (may be NULL): the new one. */
LIMPET_API int limpet_reset(LimpetClient *client, const char *session, uint64_t *epoch);

/* Saves the session with everything in it, when what runs or waits has ended, and removes its container. The
 * next request wakes it. LIMPET_BUSY where it is in use, or has branches or contexts. */
LIMPET_API int limpet_sleep(LimpetClient *client, const char *session);

/* Ends a running call, which is answered with LIMPET_FAILED, and removes the container; of a branch, ends
 * that branch alone. *out and *err get what exit functions wrote, to be freed, or NULL; both may be NULL. */
LIMPET_API int limpet_close(LimpetClient *client, const char *session, char **out, char **err);

typedef struct LimpetSession {
    const char *session, *engine, *container;
    int64_t user;       /* uid of whose it is; -1 where the controller does not tell */
    const char *status; /* "starting", "idle", "running", "saved" or "closing" */
    double created;     /* Unix seconds */
    double idle;        /* seconds */
    uint64_t execution_count, epoch;
    uint64_t memory; /* in use */
} LimpetSession;

typedef struct LimpetSessions {
    int64_t pid; /* of the controller */
    const char *version, *socket, *engine;
    uint64_t spares; /* containers that wait for a session */
    const LimpetSession *sessions;
    size_t n_sessions;
} LimpetSessions;

LIMPET_API int limpet_sessions(LimpetClient *client, LimpetSessions **ret);
/* With those of other users, which only root sees. */
LIMPET_API int limpet_sessions_all(LimpetClient *client, LimpetSessions **ret);
LIMPET_API void limpet_sessions_free(LimpetSessions *sessions);

/* As `limpet ls --json` prints it, to be freed with free(); NULL when out of memory. */
LIMPET_API char *limpet_sessions_json(const LimpetSessions *sessions);

/* ---- Calls ---- */

typedef enum LimpetStatus {
    LIMPET_OK,
    LIMPET_ERROR,       /* a Python exception reached the top; a command's exit code is not 0 */
    LIMPET_TIMEOUT,     /* the call ran into its deadline */
    LIMPET_INTERRUPTED, /* limpet_interrupt() or limpet_interrupt_call() */
    LIMPET_EXITED,      /* the code ended the interpreter: exit_code */
    LIMPET_CRASHED,     /* a signal ended the interpreter: signal */
    LIMPET_OOM,         /* the container ran out of memory */
    LIMPET_FAILED       /* the sandbox could not run it: error says why */
} LimpetStatus;

typedef enum LimpetState {
    LIMPET_KEPT,        /* variables are as the call left them */
    LIMPET_ROLLED_BACK, /* variables are as before, see rolled_back_to */
    LIMPET_LOST         /* the interpreter is a new one */
} LimpetState;

/* A variable, as it can be told without running any code of the cell. */
typedef struct LimpetVariable {
    const char *name;
    const char *type;      /* with its module unless that is builtins */
    const uint64_t *shape; /* of arrays and frames, the length of containers; NULL: it has none */
    size_t n_shape;
    const char *dtype; /* of arrays and series; or NULL */
    bool has_bytes;
    uint64_t bytes;   /* memory of its data */
    const char *repr; /* of built-in scalars and short strings; or NULL */
} LimpetVariable;

/* The names that a call bound. */
typedef struct LimpetChanged {
    const LimpetVariable *added, *changed;
    size_t n_added, n_changed;
    const char *const *deleted;
    size_t n_deleted;
    uint64_t more; /* names that were left out */
} LimpetChanged;

/* Protection that a call ran under: where losing the interpreter would have led. */
typedef struct LimpetProtection {
    bool checkpoint;          /* false: to nowhere */
    uint64_t execution_count; /* of that checkpoint */
    const char *reason;       /* why there was none; or NULL */
} LimpetProtection;

typedef enum LimpetValueType {
    LIMPET_TEXT,
    LIMPET_BYTES,
    LIMPET_JSON /* anything else, as JSON text */
} LimpetValueType;

/* A form of a display. */
typedef struct LimpetValue {
    const char *mime_type;
    LimpetValueType type;
    const char *data; /* terminated as well */
    size_t size;
} LimpetValue;

typedef struct LimpetDisplay {
    const LimpetValue *values;
    size_t n_values;
    const char *metadata;   /* JSON text of a map */
    const char *display_id; /* or NULL */
    bool is_result;         /* a richer form of the last expression's value */
} LimpetDisplay;

/* A file that the call made or changed. */
typedef struct LimpetArtifact {
    const char *path;      /* in the container */
    const char *host_path; /* of the controller's copy, or of that on this machine (limpet_set_artifacts()) */
    uint64_t size;
    const char *mime_type, *sha256; /* or NULL */
} LimpetArtifact;

/* A file that could not be published. */
typedef struct LimpetSkipped {
    const char *path, *reason;
} LimpetSkipped;

/* The record of a call. proto/PROTOCOL.md describes each field. */
typedef struct LimpetResult {
    const char *run_id;
    const char *session; /* NULL: a container of its own */
    const char *engine;
    uint64_t execution_count; /* 0 of a command */
    LimpetStatus status;
    const char *status_name; /* "ok", "error", ... */
    LimpetState state;
    const char *rolled_back_to;      /* a checkpoint; NULL unless rolled back */
    uint64_t rolled_back_to_count;   /* the last call whose effects are in the variables */
    const char *const *not_restored; /* what a copy of memory does not bring back, such as a thread */
    size_t n_not_restored;
    LimpetProtection state_protection;
    const LimpetChanged *changed; /* NULL: no name was bound */
    uint64_t epoch;

    const char *stdout_text, *stderr_text; /* never NULL */
    size_t stdout_size, stderr_size;       /* of these texts */
    uint64_t stdout_bytes, stderr_bytes;   /* what the code really wrote */
    bool truncated;
    const char *stdout_file,
        *stderr_file; /* path in the container of the full text of a cut stream, or NULL */

    const char *result; /* repr of the last expression, or NULL */
    const LimpetDisplay *displays;
    size_t n_displays;

    const char *error_name; /* NULL exactly when status is LIMPET_OK, as the next two */
    const char *error_message, *traceback;
    bool has_signal, has_exit_code;
    int signal, exit_code; /* how the interpreter ended, when it did; or the command */

    const LimpetArtifact *artifacts;
    size_t n_artifacts;
    const LimpetSkipped *skipped;
    size_t n_skipped;

    double duration;      /* seconds */
    double cpu;           /* seconds */
    uint64_t peak_memory; /* bytes */
    const char *kind;     /* "python" or "command" */

    const char *const
        *restored; /* of the first call after a restore: what is not as it was; otherwise NULL */
    size_t n_restored;

    /* Output of threads and children between the call before and this one; NULL: there was none. */
    const char *between_stdout;
    const char *between_stderr;
    uint64_t between_dropped; /* bytes of it that are not there */
} LimpetResult;

typedef struct LimpetRun {
    const char *session;          /* NULL: a clean container for this call alone */
    const char *instance;         /* of LimpetOpened: refuses another life of that name; or NULL */
    const LimpetOptions *options; /* only without a session; or NULL */
    const char *code;             /* UTF-8 */
    size_t code_size;             /* 0: strlen(code) */
    const char *run_id;           /* 32 lower-case hexadecimal digits; NULL: made at random */
    double timeout;               /* 0: the session's */
    const char *on_error;         /* "rollback": unless it ends well the variables are as before; or NULL */

    /* Called while the code runs; each may be NULL. They must not use the client. `stream` is 1 or 2; a UTF-8
     * character may be split over two calls. When the controller was lost and found again, what was missed
     * comes in one piece at the end, from the record; displays that were missed are only in the result. An
     * `update` without a display_id, and without data, takes back all that was shown. */
    void (*on_output)(void *context, int stream, const char *bytes, size_t size);
    void (*on_display)(void *context, const LimpetDisplay *display, bool update);
    void *context;

    /* Answers input() and getpass() of the code: a line of UTF-8 without its end, allocated with malloc(), or
     * NULL at the end of input. What answers a `secret` is not to be shown while it is typed. It may take its
     * time, which does not count towards the timeout, and must not use the client; output that comes
     * meanwhile is delivered afterwards. Where limpet_interrupt_call() was called meanwhile the code is
     * interrupted instead. Without this callback input() raises EOFError at once. */
    char *(*on_input)(void *context, const char *prompt, bool secret);
} LimpetRun;

/* Runs code and waits for its record. When the controller goes away the call asks again with the same run_id,
 * so that the code never runs twice. *ret is freed with limpet_result_free(). */
LIMPET_API int limpet_run(LimpetClient *client, const LimpetRun *run, LimpetResult **ret);

/* Program to be run: either a line for `bash -c`, or a program and its arguments. */
typedef struct LimpetProgram {
    const char *command;
    const char *const *argv; /* NULL at the end */
    const char *cwd;         /* NULL: /session, to which it may be relative */
    const char *const *env;  /* "NAME=value" strings besides the session's, then NULL; or NULL */
    const char *stdin_data;  /* NULL: its standard input is empty */
    size_t stdin_size;
} LimpetProgram;

typedef struct LimpetExec {
    const char *session;
    const char *instance; /* of LimpetOpened: refuses another life of that name; or NULL */
    LimpetProgram program;
    const char *run_id; /* 32 lower-case hexadecimal digits; NULL: made at random */
    double timeout;     /* 0: the session's */

    /* As those of LimpetRun. */
    void (*on_output)(void *context, int stream, const char *bytes, size_t size);
    void *context;
} LimpetExec;

/* Runs a command beside the code of a session, and waits for its record, as limpet_run() does. Its exit code
 * is in the result: LIMPET_OK is 0, LIMPET_ERROR another one. */
LIMPET_API int limpet_exec(LimpetClient *client, const LimpetExec *exec, LimpetResult **ret);

/* Interrupts the limpet_run() or limpet_exec() that is under way on this client, or the next one when none
 * is; the call still returns its record. Async-signal-safe, and safe from any thread while the client exists.
 */
LIMPET_API void limpet_interrupt_call(LimpetClient *client);

/* The record of an earlier call, waiting for it at most `timeout` seconds (LIMPET_FOREVER: as long as it
 * takes; 0: not at all). *ret is NULL when it is still running. */
LIMPET_API int limpet_result(LimpetClient *client, const char *run_id, double timeout, LimpetResult **ret);
LIMPET_API void limpet_result_free(LimpetResult *result);

/* The record as one JSON object, field by field as in proto/PROTOCOL.md: binary values as base64, bytes of
 * paths that are not UTF-8 as Python's surrogateescape has them, numbers that JSON lacks as null. To be freed
 * with free(); NULL when out of memory. */
LIMPET_API char *limpet_result_json(const LimpetResult *result);

/* ---- Files ---- */

/* Copies everything that can be read from `fd` to a file of the session, which it replaces as a whole. `path`
 * is relative to /session or absolute, as in limpet_files.h; or under /data, where code only reads. A large
 * regular file below these two is copied by the kernel, holes as holes. */
LIMPET_API int limpet_put(LimpetClient *client, const char *session, const char *path, int fd);

/* Writes a file of the session to `fd`, with its holes where `fd` can have some. */
LIMPET_API int limpet_get(LimpetClient *client, const char *session, const char *path, int fd);

/* Writes an artifact of a call to `fd`, for a controller on another machine, whose `host_path` means nothing
 * here. `path` is one of the result's. The controller has it as long as the result of the call. Where this
 * fails, also because the SHA-256 is not that of the result, what has been written is of no use. */
LIMPET_API int limpet_artifact(LimpetClient *client, const LimpetResult *result, const char *path, int fd);

#ifdef __cplusplus
}
#endif

#include "limpet_files.h"
#include "limpet_network.h"
#include "limpet_packages.h"
#include "limpet_processes.h"
#include "limpet_state.h"
#include "limpet_templates.h"

#endif
