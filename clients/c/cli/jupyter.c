/* limpet jupyter: the Python package does the work, and this calls it. */
#include <errno.h>
#include <string.h>

#include "clients/c/cli/cli.h"

static int run(const void *values, char **operands, int n)
{
    const char *given = getenv("LIMPET_PYTHON");
    char *python = given && *given ? (char *)given : (char *)"python3";
    char **arguments = calloc((size_t)n + 4, sizeof(*arguments));

    if (!arguments) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    arguments[0] = python;
    arguments[1] = (char *)"-m";
    arguments[2] = (char *)"limpet.jupyter";
    memcpy(arguments + 3, operands, (size_t)n * sizeof(*arguments));
    execvp(python, arguments);
    fprintf(stderr, "limpet: %s: %s; set LIMPET_PYTHON to a Python that has limpet[jupyter]\n", python,
            strerror(errno));
    free(arguments);
    return EXIT_SANDBOX;
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
