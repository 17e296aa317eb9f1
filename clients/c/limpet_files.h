/* Files anywhere that the sandbox's own user may: /session, /tmp, /home/user. A part of limpet.h, which
 * includes it.
 *
 * Works beside a running call. A path is absolute, or relative to /session, and may have any bytes. What
 * fails is LIMPET_FILE_FAILED. */
#ifndef LIMPET_FILES_H
#define LIMPET_FILES_H

#include "limpet.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct LimpetEntry {
    const char *name;
    const char *path;   /* absolute, in the container */
    const char *type;   /* "file", "directory", "symlink" or "other" */
    uint64_t size;      /* bytes */
    unsigned mode;      /* permissions */
    double modified;    /* Unix seconds */
    const char *target; /* of a symlink; or NULL */
    int unreadable;     /* a directory that cannot be looked into */
} LimpetEntry;

typedef struct LimpetEntries {
    const LimpetEntry *entries; /* by path */
    size_t n_entries;
} LimpetEntries;

/* Lists the contents of a directory, `depth` levels of it, at most 128; or the one entry that is at a path.
 * No link is followed. *ret is freed with limpet_entries_free(), its JSON with free(). */
LIMPET_API int limpet_files_list(LimpetClient *client, const char *session, const char *path, unsigned depth,
                                 LimpetEntries **ret);
LIMPET_API int limpet_files_stat(LimpetClient *client, const char *session, const char *path,
                                 LimpetEntries **ret);
LIMPET_API void limpet_entries_free(LimpetEntries *entries);
LIMPET_API char *limpet_entries_json(const LimpetEntries *entries);

/* Writes a regular file of the sandbox to `fd`, with its holes where `fd` can have some. */
LIMPET_API int limpet_files_read(LimpetClient *client, const char *session, const char *path, int fd);

/* Makes a file of all that can be read from `fd`. It is there as a whole or not at all; what is there is
 * replaced. `mode` is its permissions; `parents`: missing directories are made. */
LIMPET_API int limpet_files_write(LimpetClient *client, const char *session, const char *path, int fd,
                                  unsigned mode, bool parents);

/* `parents`: those above it are made too, and it may be there already. */
LIMPET_API int limpet_files_mkdir(LimpetClient *client, const char *session, const char *path, bool parents);

/* On the same file system; a file that is there is replaced. */
LIMPET_API int limpet_files_move(LimpetClient *client, const char *session, const char *old_path,
                                 const char *new_path);

/* A file, a link or an empty directory; with `recursive` also a directory with all that is in it. */
LIMPET_API int limpet_files_remove(LimpetClient *client, const char *session, const char *path,
                                   bool recursive);

/* Tells the bytes that have been copied, and those of the whole. It must not use the client. */
typedef void LimpetOnProgress(void *context, uint64_t done, uint64_t whole);

/* Copies a local directory into one of the sandbox, and the other way round; what is there stays, but for
 * files and links of the same name. Each file takes its place as a whole. Names may have any bytes; modes and
 * holes are kept where they can be. A tree with links that lead out of it, or with what is neither file,
 * directory nor link, is refused before anything is copied. No link is followed, and none of a hostile tree
 * reaches anything outside. `on_progress` may be NULL. */
LIMPET_API int limpet_files_put_tree(LimpetClient *client, const char *session, const char *local,
                                     const char *path, LimpetOnProgress *on_progress, void *context);
LIMPET_API int limpet_files_get_tree(LimpetClient *client, const char *session, const char *path,
                                     const char *local, LimpetOnProgress *on_progress, void *context);

/* `kind` is "created", "modified", "removed" or "moved". False ends it. It must not use the client. */
typedef bool LimpetOnEvent(void *context, const char *kind, const char *path);

/* Tells what happens in a directory, and with `recursive` in those within it, until `on_event` returns false.
 */
LIMPET_API int limpet_files_watch(LimpetClient *client, const char *session, const char *path, bool recursive,
                                  LimpetOnEvent *on_event, void *context);

#ifdef __cplusplus
}
#endif

#endif
