/* The table of the commands. */
#include <string.h>

#include "clients/c/cli/cli.h"

/* clang-format off */
const Command *const commands[] = {
    &command_run,
    &command_exec,
    &command_start,
    &command_ps,
    &command_attach,
    &command_kill,
    &command_shell,
    &command_forward,
    &command_repl,
    &command_open,
    &command_ls,
    &command_vars,
    &command_close,
    &command_reset,
    &command_sleep,
    &command_interrupt,
    &command_put,
    &command_get,
    &command_artifact,
    &command_files,
    &command_save,
    &command_export,
    &command_checkpoint,
    &command_checkpoints,
    &command_rollback,
    &command_drop,
    &command_branch,
    &command_fork,
    &command_commit,
    &command_context,
    &command_install,
    &command_network,
    &command_template,
    &command_logs,
    &command_shutdown,
    &command_doctor,
    &command_image,
    &command_jupyter,
    &command_mcp,
    &command_serve,
    &command_key,
    &command_keygen,
    &command_dial_stdio,
    &command_completion,
    &command_version,
    &command_help,
    NULL,
};
/* clang-format on */

const Command *command_find(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0 ||
            (commands[i]->alias && strcmp(commands[i]->alias, name) == 0))
            return commands[i];
    return NULL;
}
