/* `limpet-guest files`: the files process, which the supervisor starts on first use. It reads and changes
 * files for clients as what it is, a process of the sandbox's own user without any power: the kernel lets it
 * do what code in the sandbox may do, and nothing else. It says nothing that is believed.
 *
 *   files.c   the channel, whose question it is, paths   read.c    stat, list, read, fetch
 *   write.c   write, store, mkdir, move, remove          watch.c   watch, events, unwatch
 *
 * No question takes long: what is large is asked for in pieces. */
#pragma once

#include <sys/stat.h>

#include "guest/channel.h"
#include "proto/base/loop.h"
#include "proto/file_ask.h"

/* Serves the channel until that ends. The current directory is that of the session. The exit status. */
int files_main(void);

typedef struct Files Files;
typedef struct DirectoryWalk DirectoryWalk;
typedef struct Upload Upload;
typedef struct Watching Watching;

/* Listings and uploads that are kept between questions; they give way to newer ones, the longest unused
 * first. */
#define LISTINGS 8
#define UPLOADS  8

struct Files {
    Loop *loop;
    LoopFile file;
    ChannelReader reader;
    Buf out;
    uint64_t last;                     /* number given to a listing, upload or watch */
    char blamed[LIMIT_PATH + 1];       /* subject of a failure; "": the path of the question */
    DirectoryWalk *listings[LISTINGS]; /* the last used first */
    Upload *uploads[UPLOADS];
    Watching *watching; /* NULL until it is needed */
};

/* Each answers a question, now or later, and returns 0; or a negative errno, which is the answer then. */
int files_stat(Files *files, uint64_t id, const MsgFileStat *ask);
int files_list(Files *files, uint64_t id, const MsgFileList *ask);
int files_read(Files *files, uint64_t id, const MsgFileRead *ask);
int files_write(Files *files, uint64_t id, const MsgFileWrite *ask);
int files_mkdir(Files *files, uint64_t id, const MsgFileMkdir *ask);
int files_move(Files *files, uint64_t id, const MsgFileMove *ask);
int files_remove(Files *files, uint64_t id, const MsgFileRemove *ask);
int files_fetch(Files *files, uint64_t id, const MsgFileFetch *ask);
int files_store(Files *files, uint64_t id, const MsgFileStore *ask);
int files_watch(Files *files, uint64_t id, const MsgFileWatch *ask);
int files_events(Files *files, uint64_t id, const MsgFileEvents *ask);
int files_unwatch(Files *files, uint64_t id, const MsgFileUnwatch *ask);

/* Answers with a `type`. 0 or a negative errno. */
#define files_reply(files, id, type, from) files_reply_with(files, id, SCHEMA(type), (const type *){from})
int files_reply_with(Files *files, uint64_t id, const Schema *schema, const void *body);
int files_reply_empty(Files *files, uint64_t id);
/* Answers with a failure, a negative errno, about that path (absent: none). */
void files_fail(Files *files, uint64_t id, int error, Text path);

/* The failure that is about to be returned is about this path, and no other that the question has. Returns
 * `error`. */
int files_blame(Files *files, const char *path, int error);

/* ---- paths ---- */

typedef char Path[LIMIT_PATH + 1];

/* Turns the path of a question into that for system calls: relative to the session's directory, which is the
 * current one, or absolute. -ENOENT, -EINVAL or -ENAMETOOLONG. */
int path_take(Path ret, Text path);

/* Turns it into that of replies: absolute, without empty and "." components. */
int path_show(Path ret, Text path);

/* Appends a name to a directory's path. -ENAMETOOLONG. */
int path_join(Path ret, const char *directory, const char *name);

/* Splits a path into the directory, "." or "/" where it has none of its own, and the name, which is a part of
 * `path`. -EISDIR where that is "", "." or "..". */
int path_split(Path ret_directory, const char **ret_name, const char *path);

/* Makes the directories of a path that are missing. 0 or a negative errno. */
int path_make(const char *path);

/* Reads the entry at `name`, below an open directory. `shown` and `target` hold the texts of *ret. */
int entry_read(MsgFileEntry *ret, int directory, const char *name, const char *shown, Path target);
void entry_fill(MsgFileEntry *ret, const struct stat *st);

/* Opens what is at a path below a directory, whatever links lie on the way: none leads out of it. `flags`,
 * `mode` and the result are as of open(). */
int beneath(int directory, const char *path, int flags, mode_t mode);

/* Opens a regular file for reading, and waits for nobody: a FIFO, a device or the like is -ENXIO, a directory
 * -EISDIR. `resolve`: of openat2(), with `directory`. */
int regular_open(int directory, const char *path, bool is_beneath, struct stat *ret);

/* Prefix of the names of temporary files. Nothing is told of those. */
#define TEMPORARY ".limpet-"
