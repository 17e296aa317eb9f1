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
    .summary = "Says what is right on this machine, and what to do about the rest",
    .details =
        "\nPrints what 'limpetd --check' says of the machine, whether a controller answers, what the Python\n"
        "package has in python3, or in the Python that LIMPET_PYTHON names, and how the gateway is.\n"
        "Nothing is started. The exit status is 1 where something fails.",
    .operands_max = -1,
    .verbatim = true,
    .run = run,
};
