/* limpet branch */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/opened.h"

typedef struct BranchValues {
    const char *at;
    bool json;
} BranchValues;

static const Option branch_options[] = {
    OPTION_ROW(0, "at", OPTION_TEXT, BranchValues, at, "CHECKPOINT",
               "start from this checkpoint (id or name) instead of the current variables",
               .completes = COMPLETE_CHECKPOINT),
    OPTION_ROW(0, "json", OPTION_FLAG, BranchValues, json, NULL, "print the branch as JSON"),
};

static int run(const void *values, char **operands, int n)
{
    const BranchValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetOpened opened;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_branch(client, operands[0], operands[1], given->at, &opened))
        return cli_fail(client);
    opened_print(&opened, given->json);
    return 0;
}

const Command command_branch = {
    .name = "branch",
    .usage = "[OPTIONS] SESSION NAME",
    .summary = "Opens the branch SESSION/NAME with the variables of SESSION",
    .details = "\nFrom then on the variables of the branch and of the session are separate; the container "
               "and the files\n"
               "are shared. 'commit' makes the branch the new state of the session, 'close' discards it.",
    .options = {branch_options, ARRAY_SIZE(branch_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(BranchValues),
    .run = run,
};
