/* limpet serve and limpet key: the Python package does the work, and this calls it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/python.h"

static int run_serve(const void *values, char **operands, int n)
{
    return become_python("limpet.serve", "serve", operands, n);
}

static int run_key(const void *values, char **operands, int n)
{
    char **with_word = calloc((size_t)n + 1, sizeof(*with_word));
    int status;

    if (!with_word) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    with_word[0] = (char *)"key";
    memcpy(with_word + 1, operands, (size_t)n * sizeof(*with_word));
    status = become_python("limpet.serve", "serve", with_word, n + 1);
    free(with_word);
    return status;
}

const Command command_serve = {
    .name = "serve",
    .usage = "[OPTIONS]",
    .summary = "Serves sessions over HTTP: a REST interface and a web page",
    .details = "\nNeeds the Python package with the extra 'serve' in python3, or in the Python that "
               "LIMPET_PYTHON names.\n"
               "'limpet serve --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_serve,
};

const Command command_key = {
    .name = "key",
    .usage = "create|rotate NAME [--expires TIME] | ls | revoke NAME [ID]",
    .summary = "Makes, lists and revokes keys of limpet serve",
    .details = "\nNeeds the Python package in python3, or in the Python that LIMPET_PYTHON names.\n"
               "'limpet key --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run_key,
};
