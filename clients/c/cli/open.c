/* limpet open */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clients/c/cli/bindings.h"
#include "clients/c/cli/cli.h"
#include "clients/c/options.h"
#include "proto/base/fdio.h"

typedef struct OpenValues {
    LimpetOptions options;
    char *restore; /* a file; or NULL */
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

/* Hands over the options as the protocol has them, in a file without a name: headers may be secrets. */
static int pass_options(const LimpetOptions *options)
{
    _cleanup_(buf_deinit) Buf packed = BUF_NULL;
    MsgOptions said = options_say(options);
    int fd, r;

    said.data = text_of(options->data); /* with its "host:": the package checks it */
    r = body_encode(&packed, MsgOptions, &said);
    if (r < 0)
        return r;
    fd = memfd_create("limpet-options", 0);
    if (fd < 0)
        return -errno;
    r = write_all(fd, buf_head(&packed), packed.size);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

static int restore(char *file, char *session, const LimpetOptions *options)
{
    char word[] = "restore", number[16];
    char *operands[] = {word, file, session, number};
    Problem problem = PROBLEM_NULL;
    int r = env_check(options->env, &problem);

    if (r < 0) {
        fprintf(stderr, "limpet: BadRequest: %s\n", problem.text);
        return EXIT_SANDBOX;
    }
    r = pass_options(options);
    if (r < 0) {
        fprintf(stderr, "limpet: %s\n", strerror(-r));
        return EXIT_SANDBOX;
    }
    snprintf(number, sizeof(number), "%d", r);
    return become_python("limpet.saving", NULL, operands, ARRAY_SIZE(operands));
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
    if (given->restore)
        return restore(given->restore, operands[0], &options);
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (limpet_open(client, operands[0], &options, &opened))
        return cli_fail(client);
    printf("%s %s (%s)\n", opened.created ? "opened" : "attached to", opened.session, opened.engine);
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
