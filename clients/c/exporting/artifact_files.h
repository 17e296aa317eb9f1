/* The files below /session/artifacts that calls made, each as its last call left it. */
#pragma once

#include "clients/c/exporting/past_calls.h"
#include "clients/c/limpet_saving.h"

/* Finds them in the calls, by path, and copies them below `directory`, which is made. A `file` is NULL where
 * neither the controller nor the sandbox has it as it was. 0, -ENOMEM, or -EPROTO with the client's problem.
 */
int artifact_files_export(LimpetClient *client, const char *session, const PastCalls *past,
                          const char *directory, Arena *arena, const LimpetExportedArtifact **ret,
                          size_t *ret_n);
