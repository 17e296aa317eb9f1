/* limpet save: the Python package does the work, and this calls it. */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/python.h"

static int run(const void *values, char **operands, int n)
{
    return become_python("limpet._command", NULL, (char *[]){(char *)"save", operands[0], operands[1]}, 3);
}

const Command command_save = {
    .name = "save",
    .usage = "SESSION FILE",
    .summary = "Saves a session to a file: its variables, /session and its options",
    .details =
        "\nThe session goes on as before. Variables that cannot be saved are named, with the reason. The "
        "file "
        "is a tar;\n'limpet open --restore FILE SESSION' makes a session of it, also on another machine.\n"
        "Needs the Python package in python3, or in the Python that LIMPET_PYTHON names.",
    .operands = {COMPLETE_SESSION, COMPLETE_FILE},
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
