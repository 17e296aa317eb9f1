/* limpet checkpoints */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"

typedef struct CheckpointsValues {
    bool json;
} CheckpointsValues;

static const Option checkpoints_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, CheckpointsValues, json, NULL, "print the list as JSON"),
};

static int run(const void *values, char **operands, int n)
{
    const CheckpointsValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_checkpoints(client, operands[0], &list))
        return cli_fail(client);
    return given->json ? cli_print_json(limpet_checkpoints_json(list)) : show_checkpoints(list);
}

const Command command_checkpoints = {
    .name = "checkpoints",
    .usage = "[OPTIONS] SESSION",
    .summary = "Lists the checkpoints of a session and its branches",
    .details = "\nA checkpoint is shown below the one that its state started from.",
    .options = {checkpoints_options, ARRAY_SIZE(checkpoints_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(CheckpointsValues),
    .run = run,
};
