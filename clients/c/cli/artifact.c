/* limpet artifact */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/transfer.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetResult *result = NULL;
    int r;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_set_artifacts(client, NULL) || limpet_result(client, operands[0], LIMPET_FOREVER, &result))
        return cli_fail(client);
    r = cli_get_artifact(client, result, operands[1], n > 2 ? operands[2] : ".");
    limpet_result_free(result);
    return r;
}

const Command command_artifact = {
    .name = "artifact",
    .usage = "RUN_ID PATH [LOCAL]",
    .summary = "Fetches a file that a call has published, and checks its SHA-256",
    .details =
        "\nFor a controller on another machine, whose copies cannot be opened here. RUN_ID and PATH are "
        "those of the\ncall's record (`limpet run --json`). LOCAL is a file or a directory, by default "
        "this one; '-' is\nstandard output. Waits for a call that still runs.",
    .operands = {COMPLETE_NOTHING, COMPLETE_NOTHING, COMPLETE_FILE},
    .operands_min = 2,
    .operands_max = 3,
    .run = run,
};
