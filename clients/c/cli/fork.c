/* limpet fork */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/opened.h"
#include "proto/limits.h"

typedef struct ForkValues {
    bool json;
} ForkValues;

static const Option fork_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, ForkValues, json, NULL, "print each session as a line of JSON"),
};

static int run(const void *values, char **operands, int n)
{
    const ForkValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetOpened opened[LIMIT_FORKS];
    size_t count = (size_t)n - 1;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_fork(client, operands[0], (const char *const *)operands + 1, count,
                    count <= LIMIT_FORKS ? opened : NULL))
        return cli_fail(client);
    for (size_t i = 0; i < MIN(count, LIMIT_FORKS); i++)
        opened_print(&opened[i], given->json);
    return 0;
}

const Command command_fork = {
    .name = "fork",
    .usage = "[OPTIONS] SESSION NAME...",
    .summary = "Makes sessions with copies of the variables and files of SESSION",
    .details =
        "\nEach has a container of its own, and the options of SESSION. 'branch' makes a lighter copy that "
        "shares\n"
        "the container and the files.",
    .options = {fork_options, ARRAY_SIZE(fork_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 2,
    .operands_max = -1,
    .values_size = sizeof(ForkValues),
    .run = run,
};
