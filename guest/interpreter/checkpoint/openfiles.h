/* The open files of the cells' code across a copy of the process. What the kernel shares between a process
 * and its fork (positions, pipes, connections, locks, sets of epoll) must not be shared between an
 * interpreter and its copies: neither may move the other's position, keep a pipe open that the other closed,
 * or keep a lock.
 *
 * Three steps, in three processes: the interpreter records before it is copied; the frozen copy releases what
 * it shares; a copy that is brought back gets files of its own under the same numbers. Directories, devices
 * and the like stay as a fork has them.
 *
 * Other threads rest meanwhile (threads.h), so that nothing here allocates. */
#pragma once

#include <sys/stat.h>
#include <time.h>

#include "guest/interpreter/checkpoint/notes.h"

typedef enum OpenFileKind {
    OPEN_REGULAR,
    OPEN_PIPE,
    OPEN_NAMED_PIPE,
    OPEN_SOCKET,
    OPEN_TERMINAL,
    OPEN_EPOLL,
    OPEN_EVENT,
    OPEN_TIMER,
    OPEN_SIGNALS,
    OPEN_WATCHES, /* inotify */
} OpenFileKind;

typedef struct PollEntry {
    int fd;
    uint32_t events;
    uint64_t data;
} PollEntry;

typedef struct OpenFile {
    OpenFileKind kind;
    int fd;
    int flags;    /* of the file, as F_GETFL has them */
    int fd_flags; /* of the descriptor, as F_GETFD has them */
    dev_t device;
    ino_t inode;
    union {
        off_t position; /* regular */
        int stream;     /* pipe: 1 or 2 when it is ours, otherwise 0 */
        uint64_t count; /* event */
        uint64_t mask;  /* signals */
        struct {
            int clock;
            uint64_t ticks;         /* that have not been read */
            struct itimerspec left; /* from when it was recorded */
        } timer;
        struct {
            PollEntry *items;
            size_t n;
        } polls;
        struct {
            int domain, type;
            bool listens;
            pid_t creator; /* of one that may be of a pair, otherwise 0 */
        } socket;
    };
    uint8_t *pending; /* what has not been read from it */
    size_t pending_size;
} OpenFile;

typedef struct OpenFiles {
    OpenFile *items; /* by inode */
    size_t n;
} OpenFiles;

/* In the interpreter: everything but its own descriptors and `except`. 0 or a negative errno. */
int openfiles_record(OpenFiles *files, int except, Notes *notes);

/* In the frozen copy. */
void openfiles_release(const OpenFiles *files);

/* In the copy brought back, which has its channel and streams. */
void openfiles_restore(OpenFiles *files, Notes *notes);

void openfiles_deinit(OpenFiles *files);
