/* The directories that code of a session writes to, and the file system that they may be on: an image in
 * sessions/ID, of which a part is mounted on each of them. Making and unmounting it is for root. */
#pragma once

#include "host/files/disk.h"

#define DISK_NAME "disk"

/* Modes and owners of directories: for us alone, for all to read, for all to write; owner and group stay
 * ours. */
#define PRIVATE_MODE 0700
#define OURS_MODE    0755
#define SHARED_MODE  01777
#define NOBODY_ELSE  (uid_t) - 1, (gid_t)-1

/* Makes what code writes to in `parent`: that of /session, and that of the rest. 0 or a negative errno. */
int session_disk_fill(int parent, const char *files, const char *scratch);

/* Removes what is in them, if they are there in `parent`, and has them as they are made. */
void session_disk_empty(int parent);

/* Makes what is read at /data where no other directory is mounted, and what clients put there passes through.
 * 0 or a negative errno. */
int session_disk_make_data(int scratch);

/* Makes it in `session`, a handle on sessions/ID, with `files` and `scratch`. For a worker thread. 0, or a
 * negative errno, with the problem set where more is to be said; it is removed with the session either way.
 */
int session_disk_make(int session, DiskSize size, Problem *problem);

/* Mounts one that was made there before the machine restarted, and was of a pinned session: after a check of
 * what is in it, and only what nobody else has open. As the last but one. */
int session_disk_mount(int session, Problem *problem);

/* Unmounts whatever is mounted there. What still uses it goes on. */
void session_disk_detach(int session);

/* Functions that do these for this process where it may not itself, by the name below sessions. */
typedef struct DiskMaker {
    int (*make)(void *userdata, const char *id, DiskSize size, Problem *problem);
    int (*mount)(void *userdata, const char *id, Problem *problem);
    void (*detach)(void *userdata, const char *id);
    void *userdata;
} DiskMaker;

/* NULL, as in the beginning: this process. Before there are other threads. */
void disk_maker_set(const DiskMaker *maker);

/* The same three, by whoever does them. */
int disk_maker_make(int session, const char *id, DiskSize size, Problem *problem);
int disk_maker_mount(int session, const char *id, Problem *problem);
void disk_maker_detach(int session, const char *id);
