/* Shared by what copies files of a session. */
#pragma once

#include "clients/c/client.h"

/* Asks one thing, and decodes the reply into *ret, a `type`, which points into `reply`. `once`: not again
 * when the controller went away. */
#define files_ask(client, session, what, once, reply, ret, type)                                             \
    files_ask_with(client, session, what, once, reply, (type *){ret}, SCHEMA(type))
int files_ask_with(LimpetClient *client, const char *session, const MsgFileAsk *what, bool once, Reply *reply,
                   void *ret, const Schema *schema);

/* Leaves `size` bytes that are zero: a hole where `fd` can have one at its position. 0 or a negative errno.
 */
int skip_bytes(int fd, uint64_t size);

/* A hole at the end of a file has nothing behind it that would make the file as long as it is. */
int set_end(int fd);
