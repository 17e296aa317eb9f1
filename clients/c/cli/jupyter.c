/* limpet jupyter: the Python package does the work, and this calls it. */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/python.h"

static int run(const void *values, char **operands, int n)
{
    return become_python("limpet.jupyter", "jupyter", operands, n);
}

const Command command_jupyter = {
    .name = "jupyter",
    .usage = "install [OPTIONS]",
    .summary = "Installs a Jupyter kernel whose cells run in a session",
    .details = "\nNeeds the Python package with the extra 'jupyter' in python3, or in the Python that "
               "LIMPET_PYTHON names.\n"
               "'limpet jupyter install --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run,
};
