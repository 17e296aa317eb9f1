/* limpet image: another program does the work, and this finds it. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "clients/c/cli/cli.h"

/* $LIMPET_IMAGE_TOOL; where `make install` puts it; where the source tree has it, seen from its build/bin. */
static int tool_find(char *ret, size_t size)
{
    static const char *const places[] = {"../libexec/limpet/limpet-image", "../../image/build"};
    const char *given = getenv("LIMPET_IMAGE_TOOL");
    char directory[PATH_MAX];

    if (given && *given) {
        snprintf(ret, size, "%s", given);
        return 0;
    }
    cli_program_directory(directory, sizeof(directory));
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        int n = snprintf(ret, size, "%s/%s", directory, places[i]);

        if (n > 0 && (size_t)n < size && access(ret, X_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

static int run(const void *values, char **operands, int n)
{
    char tool[2 * PATH_MAX];

    if (tool_find(tool, sizeof(tool)) < 0) {
        fprintf(stderr,
                "limpet: limpet-image is not installed; install it, or set LIMPET_IMAGE_TOOL to its path\n");
        return EXIT_SANDBOX;
    }
    /* operands[-1] is "limpet", and NULL follows the last one. */
    operands[-1] = tool;
    execv(tool, operands - 1);
    fprintf(stderr, "limpet: %s: %s\n", tool, strerror(errno));
    return EXIT_SANDBOX;
}

const Command command_image = {
    .name = "image",
    .usage = "build|ls|rm|smoke ...",
    .summary = "Builds and manages the images that sessions run in",
    .details = "\n'limpet image --help' lists the options.",
    .operands_max = -1,
    .verbatim = true,
    .run = run,
};
