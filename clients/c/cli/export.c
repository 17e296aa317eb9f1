/* limpet export */
#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetExported *exported = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_attach(client, operands[0], NULL) ||
        limpet_export(client, operands[0], operands[1], &exported))
        return cli_fail(client);
    for (size_t i = 0; i < exported->n_artifacts; i++) {
        if (exported->artifacts[i].file)
            continue;
        fputs("limpet: not exported: ", stderr);
        cli_print_name(stderr, exported->artifacts[i].path);
        fputs(": it is not as the call left it any more\n", stderr);
    }
    puts(exported->notebook);
    limpet_exported_free(exported);
    return 0;
}

const Command command_export = {
    .name = "export",
    .usage = "SESSION DIRECTORY",
    .summary = "Writes a notebook of the calls of a session, its artifacts and a lock file",
    .details =
        "\nThe notebook has the calls in order with their outputs, and runs again. lock.json has the image, "
        "the versions\nof Python and of all packages, and the artifacts with their SHA-256 and the call that "
        "made them.",
    .operands = {COMPLETE_SESSION, COMPLETE_DIRECTORY},
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
