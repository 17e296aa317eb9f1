/* The files process as the supervisor sees it: it is started on first use, handed what clients ask about
 * files, and what it says goes to the controller if it is an answer. It is as hostile as the code: same user,
 * same sandbox. Beside a call it goes on; when it ends, or does not answer in time, what was asked has
 * failed, and the next question starts another one. */
#pragma once

#include "guest/supervisor/command_line.h"
#include "guest/supervisor/link/link.h"
#include "proto/base/loop.h"
#include "proto/file_ask.h"

/* A question under way. */
typedef struct FileQuestion {
    uint64_t id; /* 0: this place is free */
    FileOp op;
    bool told; /* the controller waits for the answer */
} FileQuestion;

typedef struct FilesProcess {
    Loop *loop;
    const CommandLine *command_line;
    Link *link;
    pid_t *pid;  /* 0: there is none. Its owner spares it */
    int channel; /* -1: closed */
    LoopFile file;
    LoopTimer limit; /* set while an answer is due */
    Buf in, out;
    FileQuestion questions[LIMIT_FILE_REQUESTS + LIMIT_WATCHES];
} FilesProcess;

void files_process_init(FilesProcess *files, Loop *loop, const CommandLine *command_line, Link *link,
                        pid_t *pid);
void files_process_deinit(FilesProcess *files); /* the process has been ended before */

/* Takes a question of the controller. 0: it is or will be answered. -EPROTO with a Problem: it is refused. */
int files_process_ask(FilesProcess *files, const Message *message, Problem *problem);

/* A child has been reaped. */
void files_process_reaped(FilesProcess *files, pid_t pid);

/* Nobody waits for what was asked so far. */
void files_process_on_controller_lost(FilesProcess *files);

/* Listens to a process behind that channel, which is taken and never blocks. 0 or a negative errno. */
int files_process_listen(FilesProcess *files, int channel);
