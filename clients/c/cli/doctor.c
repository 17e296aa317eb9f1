/* limpet doctor: the Python package does the work, and this calls it. */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/python.h"

static int run(const void *values, char **operands, int n)
{
    return become_python("limpet.doctor", NULL, operands, n);
}

const Command command_doctor = {
    .name = "doctor",
    .usage = "[--address PATH]",
    .summary = "Checks this machine, the controller, the Python package and the gateway, and names remedies",
    .details = "\nPrints the findings of 'limpetd --check', and the state of the controller, of the Python "
               "package in\n"
               "python3, or in the Python that LIMPET_PYTHON names, and of the gateway.\n"
               "Nothing is started. The exit status is 1 if a check fails.",
    .operands_max = -1,
    .verbatim = true,
    .run = run,
};
