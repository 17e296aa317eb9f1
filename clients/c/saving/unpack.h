/* Contents of an archive on their way into a sandbox. */
#pragma once

#include "clients/c/saving/archive_reader.h"
#include "clients/c/tree_store.h"

/* Sends all of the archive from where it is on: files below /session, and the variables to `place`, a
 * directory of it. 0, -ENOMEM, or -EPROTO with the client's problem. */
int unpack(LimpetClient *client, const char *session, ArchiveReader *archive, const char *place,
           TreeProgress *progress);
