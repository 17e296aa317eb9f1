/* limpet open */
#include <string.h>

#include "clients/c/cli/bindings.h"
#include "clients/c/cli/cli.h"

typedef struct OpenValues {
    LimpetOptions options;
    const char *restore; /* a file; or NULL */
    const char *const *bindings, *const *headers;
} OpenValues;

static const Option open_options[] = {
    OPTION_ROW('t', "timeout", OPTION_SECONDS, OpenValues, options.timeout, "SECONDS",
               "time limit of a call that sets none", .least = OPTION_ABOVE_ZERO, .value = "120"),
    OPTION_ROW(0, "restore", OPTION_TEXT, OpenValues, restore, "FILE",
               "restore the session from a file of 'limpet save', with its options unless given here",
               .completes = COMPLETE_FILE),
#define VALUES OpenValues
#include "clients/c/cli/container.def"
    BINDING_ROWS(OpenValues),
};

static int restore(LimpetClient *client, const char *file, const char *session, const LimpetOptions *options)
{
    LimpetRestored *restored = NULL;

    if (limpet_restore(client, file, session, options, NULL, NULL, &restored))
        return cli_fail(client);
    cli_print_notes("not as it was saved", restored->missing, restored->n_missing);
    printf("opened %s (%s)\n", restored->opened.session, restored->opened.engine);
    limpet_restored_free(restored);
    return 0;
}

static int run(const void *values, char **operands, int n)
{
    const OpenValues *given = values;
    LimpetOptions options = given->options;
    _cleanup_(bindings_freep) LimpetBinding *bindings = NULL;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(freep) char *data = NULL;
    LimpetOpened opened;
    int r = cli_absolute(options.data, &data);

    if (r)
        return r;
    r = bindings_read(given->bindings, given->headers, &bindings);
    if (r)
        return r;
    options.data = data;
    options.bindings = bindings;
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (given->restore)
        return restore(client, given->restore, operands[0], &options);
    if (limpet_open(client, operands[0], &options, &opened))
        return cli_fail(client);
    printf("%s %s (%s)\n", opened.created ? "opened" : "attached to", opened.session, opened.engine);
    if (*opened.not_enforced && strcmp(opened.engine, "local") != 0)
        fprintf(stderr, "limpet: limits that this machine does not enforce: %s\n", opened.not_enforced);
    return 0;
}

const Command command_open = {
    .name = "open",
    .usage = "[OPTIONS] SESSION",
    .summary = "Opens a session, or attaches to it if it exists",
    .details = "\nOptions that differ from those of an open session are an error: close the session first.",
    .options = {open_options, ARRAY_SIZE(open_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(OpenValues),
    .run = run,
};
