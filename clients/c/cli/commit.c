/* limpet commit */
#include <inttypes.h>

#include "clients/c/cli/cli.h"

typedef struct CommitValues {
    bool json;
} CommitValues;

static const Option commit_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, CommitValues, json, NULL, "print the result as JSON"),
};

static int run(const void *values, char **operands, int n)
{
    const CommitValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    uint64_t count, epoch;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_commit(client, operands[0], operands[1], &count, &epoch))
        return cli_fail(client);
    if (given->json)
        printf("{\"execution_count\": %" PRIu64 ", \"epoch\": %" PRIu64 "}\n", count, epoch);
    else
        printf("%s is as after call %" PRIu64 " of the branch; epoch %" PRIu64 "\n", operands[0], count,
               epoch);
    return 0;
}

const Command command_commit = {
    .name = "commit",
    .usage = "[OPTIONS] SESSION BRANCH",
    .summary = "Makes the state of a branch the state of its session, and ends the branch",
    .details = "\nBRANCH is SESSION/NAME or NAME.",
    .options = {commit_options, ARRAY_SIZE(commit_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_BRANCH},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(CommitValues),
    .run = run,
};
