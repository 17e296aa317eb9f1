#include "clients/c/cli/python.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/c/cli/cli.h"

/* "DIRECTORY/python3" to be freed, where that is the Python of a virtual environment; NULL otherwise. */
static char *python_of(const char *directory, size_t n)
{
    _cleanup_(freep) char *marker = NULL;
    char *python = NULL;

    if (asprintf(&marker, "%.*s/../pyvenv.cfg", (int)n, directory) < 0) {
        marker = NULL;
        return NULL;
    }
    if (access(marker, R_OK) < 0 || asprintf(&python, "%.*s/python3", (int)n, directory) < 0)
        return NULL;
    if (access(python, X_OK) < 0) {
        free(python);
        return NULL;
    }
    return python;
}

/* Finds the Python of the environment where the program itself is, wherever a link to it lies. */
static char *python_of_program(void)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program));

    while (n > 0 && program[n - 1] != '/')
        n--;
    return n > 1 ? python_of(program, (size_t)n - 1) : NULL;
}

/* The Python of the virtual environment that this program was called in, by its path or by PATH; NULL if it
 * was in none. */
static char *python_called_in(void)
{
    const char *called = program_invocation_name, *slash = strrchr(called, '/');
    const char *path = getenv("PATH");

    if (slash)
        return python_of(called, (size_t)(slash - called));
    while (path && *path) {
        size_t n = strcspn(path, ":");
        _cleanup_(freep) char *program = NULL;

        if (asprintf(&program, "%.*s/%s", (int)n, path, called) < 0) {
            program = NULL;
            return NULL;
        }
        if (n > 0 && access(program, X_OK) == 0)
            return python_of(path, n);
        path += n + (path[n] == ':');
    }
    return NULL;
}

static char *python_beside(void)
{
    char *python = python_called_in();

    return python ? python : python_of_program();
}

int become_python(const char *module, const char *extra, char **operands, int n)
{
    const char *given = getenv("LIMPET_PYTHON");
    _cleanup_(freep) char *beside = given && *given ? NULL : python_beside();
    char *python = given && *given ? (char *)given : beside ? beside : (char *)"python3";
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
