/* limpet rollback */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"

typedef struct RollbackValues {
    bool json;
} RollbackValues;

static const Option rollback_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, RollbackValues, json, NULL, "print the result as JSON"),
};

static int run(const void *values, char **operands, int n)
{
    const RollbackValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_rollback_freep) LimpetRollback *back = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_rollback(client, operands[0], operands[1], &back))
        return cli_fail(client);
    if (given->json)
        return cli_print_json(limpet_rollback_json(back));
    show_rollback(operands[0], back);
    return 0;
}

const Command command_rollback = {
    .name = "rollback",
    .usage = "[OPTIONS] SESSION CHECKPOINT",
    .summary = "Restores the variables of a session from a checkpoint",
    .details = "\nCHECKPOINT is the id or the name of a checkpoint of the session or of one of its branches. "
               "The checkpoint\n"
               "is kept. If it was taken with --files, /session is restored as well.",
    .options = {rollback_options, ARRAY_SIZE(rollback_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_CHECKPOINT},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(RollbackValues),
    .run = run,
};
