/* Shared by sessiondir.c (making), session_disk.c, sessiondir_remove.c and leftovers.c, and by nobody
 * else. */
#pragma once

#include "host/files/sessiondir.h"

#define PRIVATE_MODE 0700
#define NOBODY_ELSE  (uid_t) - 1, (gid_t)-1 /* owner and group stay ours */

/* Everything of sessions/ID that is not published; `sessions/ID` too when that leaves nothing. */
void sessiondir_discard(const char *state_dir, int state, const char *id, Worker *worker);

/* Removes `name` of `parent`: out of the way at once, for good on a worker thread. False when it is not
 * there.
 */
bool sessiondir_set_aside(const char *state_dir, int state, int parent, const char *name, Worker *worker);

/* Directories that nothing was published to: what is not empty stays. */
void sessiondir_remove_empty(const SessionDir *directory);

/* Makes what sandboxed code writes to in `parent`: that of /session, and that of the rest. 0 or a negative
 * errno. */
int sessiondir_make_writable(int parent, const char *files, const char *scratch);
