/* limpet context */
#include "clients/c/cli/cli.h"
#include "clients/c/cli/opened.h"

typedef struct ContextValues {
    const char *language, *cwd;
    bool json;
} ContextValues;

static const Option context_options[] = {
    OPTION_ROW('l', "language", OPTION_TEXT, ContextValues, language, "LANGUAGE",
               "language of its code, such as bash or javascript", .value = "python"),
    OPTION_ROW(0, "cwd", OPTION_TEXT, ContextValues, cwd, "DIR", "directory in the container where it starts",
               .value = "/session"),
    OPTION_ROW(0, "json", OPTION_FLAG, ContextValues, json, NULL, "print the context as JSON"),
};

static int run(const void *values, char **operands, int n)
{
    const ContextValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetOpened opened;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_context(client, operands[0], n > 1 ? operands[1] : NULL, given->language, given->cwd, &opened))
        return cli_fail(client);
    opened_print(&opened, given->json);
    return 0;
}

const Command command_context = {
    .name = "context",
    .usage = "[OPTIONS] SESSION [NAME]",
    .summary = "Opens the context SESSION/NAME: variables of its own, in Python or another language",
    .details = "\nIt starts empty, or is attached to if it exists; the container and the files are those of "
               "SESSION. NAME\n"
               "defaults to the language. 'limpet run -s SESSION/NAME' runs code in it, and "
               "'limpet run -s SESSION\n"
               "--language LANGUAGE' opens the context of a language as needed.",
    .options = {context_options, ARRAY_SIZE(context_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 2,
    .values_size = sizeof(ContextValues),
    .run = run,
};
