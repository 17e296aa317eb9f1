#include "clients/c/cli/python.h"

#include <errno.h>
#include <string.h>

#include "clients/c/cli/cli.h"

int become_python(const char *module, const char *extra, char **operands, int n)
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
    arguments[2] = (char *)module;
    memcpy(arguments + 3, operands, (size_t)n * sizeof(*arguments));
    execvp(python, arguments);
    fprintf(stderr, "limpet: %s: %s; set LIMPET_PYTHON to a Python that has limpet%s%s%s\n", python,
            strerror(errno), extra ? "[" : "", extra ? extra : "", extra ? "]" : "");
    free(arguments);
    return EXIT_SANDBOX;
}
