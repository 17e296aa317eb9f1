/* limpet mcp: the Python package does the work, and this calls it. */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/python.h"

static int run(const void *values, char **operands, int n)
{
    return become_python("limpet.mcp", "mcp", operands, n);
}

const Command command_mcp = {
    .name = "mcp",
    .usage = "[OPTIONS]",
    .summary = "Serves the Model Context Protocol on standard input and output",
    .details = "\nAn MCP client, such as an editor, starts it. Needs the Python package with the extra 'mcp' "
               "in python3, "
               "or in\nthe Python that LIMPET_PYTHON names.\n"
               "'limpet mcp --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run,
};
