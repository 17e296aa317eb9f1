/* Files and directories between this machine and a session. All return 0, or the exit status after a
 * message. A directory is merged into one that is there, and its progress is shown on a terminal. */
#pragma once

#include "clients/c/limpet.h"

/* `local` "-" is standard input. Where `path` is empty or ends in a slash the last name stays. */
int cli_put(LimpetClient *client, const char *local, const char *session, const char *path);

/* `local` "-" is standard output; in a directory the last name stays. A file that is there is replaced as
 * a whole, when all has come. */
int cli_get(LimpetClient *client, const char *session, const char *path, const char *local);

/* The same of an artifact of a call, which is there as a whole or not at all, unless `local` is "-". */
int cli_get_artifact(LimpetClient *client, const LimpetResult *result, const char *path, const char *local);
