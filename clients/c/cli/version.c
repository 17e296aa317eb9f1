/* limpet version */
#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    printf("limpet %s\n", LIMPET_VERSION);
    return 0;
}

const Command command_version = {
    .name = "version",
    .usage = "",
    .summary = "Shows the version",
    .run = run,
};
