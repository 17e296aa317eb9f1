/* Files that clients send to and fetch from a session's directory, one chunk a message. */
#pragma once

#include <sys/types.h>

#include "proto/base/buf.h"
#include "proto/base/problem.h"
#include "proto/wire.h"

/* Below the session's directory: ours, not writable by sandboxed code, on the same filesystem. */
#define TRANSFER_DIRECTORY ".limpet"

/* Writes `data` at `offset` of the upload `key` (any text the caller tells uploads apart by); offset 0 begins
 * it anew, any other must be its size so far. With `last` it becomes the file at `path` atomically: owner
 * uid:gid, or ours where we may not give files away, mode 0644, parent directories made. *ret_size: bytes so
 * far. `path` is below /session, absolute or relative. 0, or -EPROTO with the problem set. */
int transfer_put(int session_dirfd, Text path, uint64_t offset, Text data, bool last, uid_t uid, gid_t gid,
                 const char *key, uint64_t *ret_size, Problem *problem);

/* Begins the upload `key` of a file at `path`, as transfer_put() at offset 0 does. Returns a descriptor to
 * write its data through; transfer_put() at the end of them, without any and with `last`, then finishes it.
 * -EPROTO with the problem set. */
int transfer_begin_upload(int session_dirfd, Text path, const char *key, Problem *problem);

/* Makes a directory, or a link that leads to `target`, which nothing here follows; it replaces a file or a
 * link. Both are ours, and so are directories above them that are made. 0, or -EPROTO with the problem set.
 */
int transfer_mkdirs(int session_dirfd, Text path, Problem *problem);
int transfer_link(int session_dirfd, Text path, Text target, Problem *problem);

/* Removes uploads that were broken off. When none is under way. */
void transfer_clean(int session_dirfd);
/* Removes those whose keys begin so, and that are under way. */
void transfer_forget(int session_dirfd, const char *keys);

/* Appends at most `size` bytes (never more than LIMIT_FILE_CHUNK) from `offset` on to `out`; none at the end.
 * *ret_size: bytes of the whole file. Regular files only. 0, or -EPROTO with the problem set. */
int transfer_get(int session_dirfd, Text path, uint64_t offset, uint64_t size, Buf *out, uint64_t *ret_size,
                 Problem *problem);

/* Opens a regular file for reading. *ret_size: its bytes. The descriptor, or -EPROTO with the problem set. */
int transfer_open(int session_dirfd, Text path, uint64_t *ret_size, Problem *problem);
