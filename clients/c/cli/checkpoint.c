/* limpet checkpoint */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"

typedef struct CheckpointValues {
    const char *name;
    bool files, json;
} CheckpointValues;

static const Option checkpoint_options[] = {
    OPTION_ROW(0, "name", OPTION_TEXT, CheckpointValues, name, "NAME", "name of the checkpoint"),
    OPTION_ROW(0, "files", OPTION_FLAG, CheckpointValues, files, NULL, "also keep a copy of /session"),
    OPTION_ROW(0, "json", OPTION_FLAG, CheckpointValues, json, NULL, "print the checkpoint as JSON"),
};

static int run(const void *values, char **operands, int n)
{
    const CheckpointValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_taken_freep) LimpetTaken *taken = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_checkpoint(client, operands[0], given->name, given->files, &taken))
        return cli_fail(client);
    if (given->json)
        return cli_print_json(limpet_taken_json(taken));
    show_taken(taken);
    return 0;
}

const Command command_checkpoint = {
    .name = "checkpoint",
    .usage = "[OPTIONS] SESSION",
    .summary = "Takes a checkpoint of the variables of a session, for 'rollback'",
    .details = "\nThe checkpoint is kept until it is dropped, the session is closed, or its memory is needed "
               "for newer\n"
               "checkpoints.",
    .options = {checkpoint_options, ARRAY_SIZE(checkpoint_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(CheckpointValues),
    .run = run,
};
