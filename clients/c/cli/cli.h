/* Shared by the commands of `limpet`. Each is a Command and an entry in the table of help.c. */
#pragma once

#include <stdio.h>

#include "clients/c/limpet.h"
#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/option.h"

/* The exit statuses that are not a plain 0 or 1. */
#define EXIT_USAGE       2
#define EXIT_TIMEOUT     124
#define EXIT_SANDBOX     125 /* Limpet itself failed */
#define EXIT_INTERRUPTED 130
#define EXIT_KILLED      137 /* the interpreter was lost: out of memory, a signal, or an exit of its own */

/* Words that a shell may complete in the place of an argument or operand. */
typedef enum Completes {
    COMPLETE_NOTHING,
    COMPLETE_SESSION,
    COMPLETE_CHECKPOINT, /* of the session that is named on the line */
    COMPLETE_BRANCH,     /* likewise */
    COMPLETE_FILE,
    COMPLETE_DIRECTORY,
    COMPLETE_SESSION_PATH, /* SESSION: */
    COMPLETE_COMMAND,
    COMPLETE_CHOICE, /* one of `choices` */
} Completes;

/* A row of a table. Any more members follow the help: .value, .least, .completes, .choices. */
#define OPTION_ROW(letter_, name_, kind, values, member, argument_, help_, ...)                              \
    {                                                                                                        \
        .letter = (letter_), .name = (name_), .type = (kind), .offset = offsetof(values, member),            \
        .argument = (argument_), .help = (help_), __VA_ARGS__                                                \
    }

#define OPERANDS_MAX 3

typedef struct Command {
    const char *name;
    const char *alias;   /* an older name that works as well; or NULL */
    const char *usage;   /* what follows the name, as "[OPTIONS] SESSION" */
    const char *summary; /* one line */
    const char *details; /* paragraphs for --help and the man page; or NULL */
    OptionTable options;
    int operands_min, operands_max;   /* max -1: any number */
    Completes operands[OPERANDS_MAX]; /* what stands in each place; where any number may, in all */
    const char *choices;              /* of an operand that is COMPLETE_CHOICE */
    bool verbatim;                    /* everything after the name is operands */
    size_t values_size;
    /* `values` is what the options say, a struct of the command's own. The exit status. */
    int (*run)(const void *values, char **operands, int n);
    /* In place of run(): of a command that has nothing to check before it connects. */
    int (*run_connected)(LimpetClient *client, const void *values, char **operands, int n);
} Command;

/* Values of a command whose only option is --json. */
typedef struct JsonValues {
    bool json;
} JsonValues;

extern const Command command_artifact, command_attach, command_branch, command_checkpoint,
    command_checkpoints, command_close, command_commit, command_completion, command_context,
    command_dial_stdio, command_doctor, command_down, command_drop, command_exec, command_export,
    command_files, command_forward, command_get, command_help, command_image, command_install,
    command_interrupt, command_jupyter, command_key, command_keygen, command_kill, command_kubernetes,
    command_logs, command_ls, command_mcp, command_network, command_open, command_ps, command_put,
    command_repl, command_reset, command_rollback, command_run, command_save, command_show, command_serve,
    command_shell, command_shutdown, command_start, command_template, command_vars, command_up,
    command_version, command_fork, command_sleep;

/* All of them, in the order of the help; NULL at the end. */
extern const Command *const commands[];
const Command *command_find(const char *name);
void command_help_print(FILE *file, const Command *command);

/* Connects, and shows the controller's warning, the first time, if it has one. NULL after a message on
 * standard error. */
LimpetClient *cli_connect(void);

/* "limpet: NoSuchSession: ..." on standard error; EXIT_SANDBOX. */
int cli_fail(const LimpetClient *client);
/* Closes a session; the standard streams get what its exit functions wrote. As limpet_close(). */
int cli_close(LimpetClient *client, const char *session);

/* Makes a path of --data absolute, as the protocol wants it. The copy is to be freed; NULL stays NULL. */
int cli_absolute(const char *path, char **ret);

/* Cuts "SESSION:PATH" in two at the colon. EXIT_USAGE after a message when there is none. */
int cli_split(char *operand, const char **ret_session, const char **ret_path);

/* Text that may come from the sandbox, as a file name: control characters as \xNN, so that it stays one line
 * and tells the terminal nothing. */
void cli_print_name(FILE *file, const char *name);

/* Prints one line of JSON, which is freed. EXIT_SANDBOX after a message when it is NULL: memory was short. */
int cli_print_json(char *json);

/* Lines "limpet: PREFIX: NOTE" on standard error, for texts that may come from the sandbox. */
void cli_print_notes(const char *prefix, const char *const *notes, size_t n);

/* "1.5M" and "2m05s". */
const char *cli_size(char *ret, size_t size, uint64_t bytes);
const char *cli_seconds(char *ret, size_t size, double seconds);

/* Prints the message of a command that has opened a branch or context. */
void opened_print(const LimpetOpened *opened, bool json);

/* Becomes `python3 -m MODULE OPERANDS...`, with a Python that has the package. An exit status after a message
 * where there is none; `extra` is the one of the package that the module needs, or NULL. */
int become_python(const char *module, const char *extra, char **operands, int n);

/* Finds the directory of the running program, as "/usr/bin"; "" when the kernel does not say. */
void cli_program_directory(char *ret, size_t size);

/* ---- code that a command is given as a file ---- */

/* "limpet: PATH: ..." on standard error; EXIT_USAGE. */
int code_complain(const char *path, int error);

/* Reads a file, or standard input for "-", whole, but no more than tells that it is too long. 0, or
 * EXIT_USAGE after a message. */
int code_read(const char *file, Buf *ret);

/* ---- bindings ---- */

/* Rows for the table of a command; its values have `bindings` and `headers` (const char *const *). */
#define BINDING_ROWS(values)                                                                                 \
    OPTION_ROW(0, "binding", OPTION_LIST, values, bindings, "NAME=URL",                                      \
               "http://NAME.limpet/ leads there; may be repeated", .completes = COMPLETE_NOTHING),           \
        OPTION_ROW(0, "header", OPTION_LIST, values, headers, "NAME=HEADER",                                 \
                   "header that the host adds, as 'api=Authorization: Bearer ${KEY}'; may be repeated",      \
                   .completes = COMPLETE_NOTHING)

/* NULL stays NULL. ${NAME} in a header is the environment's. EXIT_USAGE after a message when something is
 * malformed, names no binding, or is not set. */
int bindings_read(const char *const *bindings, const char *const *headers, LimpetBinding **ret);
LimpetBinding *bindings_free(LimpetBinding *bindings);
DEFINE_CLEANUP(LimpetBinding *, bindings_free);

/* ---- files and directories between this machine and a session ----
 *
 * All return 0, or the exit status after a message. A directory is merged into one that is there, and its
 * progress is shown on a terminal. */

/* `local` "-" is standard input. Where `path` is empty or ends in a slash the last name stays. */
int cli_put(LimpetClient *client, const char *local, const char *session, const char *path);

/* `local` "-" is standard output; in a directory the last name stays. A file that is there is replaced as
 * a whole, when all has come. */
int cli_get(LimpetClient *client, const char *session, const char *path, const char *local);

DEFINE_CLEANUP(LimpetClient *, limpet_free);
DEFINE_CLEANUP(LimpetResult *, limpet_result_free);
DEFINE_CLEANUP(LimpetSessions *, limpet_sessions_free);
DEFINE_CLEANUP(LimpetTaken *, limpet_taken_free);
DEFINE_CLEANUP(LimpetCheckpoints *, limpet_checkpoints_free);
DEFINE_CLEANUP(LimpetRollback *, limpet_rollback_free);
DEFINE_CLEANUP(LimpetNamespace *, limpet_namespace_free);
DEFINE_CLEANUP(LimpetNetwork *, limpet_network_free);
DEFINE_CLEANUP(LimpetEntries *, limpet_entries_free);
