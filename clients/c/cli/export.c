/* limpet export: the Python package does the work, and this calls it. */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/python.h"

static int run(const void *values, char **operands, int n)
{
    return become_python("limpet._command", NULL, (char *[]){(char *)"export", operands[0], operands[1]}, 3);
}

const Command command_export = {
    .name = "export",
    .usage = "SESSION DIRECTORY",
    .summary = "Writes a notebook of the calls of a session, its artifacts and a lock file",
    .details =
        "\nThe notebook has the calls in order with their outputs, and runs again. lock.json has the image, "
        "the versions\nof Python and of all packages, and the artifacts with their SHA-256 and the call that "
        "made them.\n"
        "Needs the Python package in python3, or in the Python that LIMPET_PYTHON names.",
    .operands = {COMPLETE_SESSION, COMPLETE_DIRECTORY},
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
