#include "clients/c/cli/cli.h"

#include <errno.h>
#include <string.h>

LimpetClient *cli_connect(void)
{
    LimpetClient *client = limpet_new();

    if (!client) {
        fprintf(stderr, "limpet: %s\n", strerror(errno));
        return NULL;
    }
    if (limpet_connect(client, NULL)) {
        cli_fail(client);
        limpet_free(client);
        return NULL;
    }
    if (limpet_controller(client)->warning)
        fprintf(stderr, "limpet: warning: %s\n", limpet_controller(client)->warning);
    return client;
}

int cli_fail(const LimpetClient *client)
{
    fprintf(stderr, "limpet: %s: %s\n", limpet_error(client)->name, limpet_error(client)->message);
    return EXIT_SANDBOX;
}

int cli_absolute(const char *path, char **ret)
{
    char *absolute = path ? realpath(path, NULL) : NULL;

    if (path && !absolute) {
        fprintf(stderr, "limpet: %s: %s\n", path, strerror(errno));
        return EXIT_USAGE;
    }
    *ret = absolute;
    return 0;
}

int cli_split(char *operand, const char **ret_session, const char **ret_path)
{
    char *colon = strchr(operand, ':');

    if (!colon || colon == operand) {
        fprintf(stderr, "limpet: '%s' is not SESSION:PATH\n", operand);
        return EXIT_USAGE;
    }
    *colon = 0;
    *ret_session = operand;
    *ret_path = colon + 1;
    return 0;
}

void cli_print_name(FILE *file, const char *name)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            fprintf(file, "\\x%02x", *c);
        else
            fputc(*c, file);
}

void cli_program_directory(char *ret, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", ret, size - 1);
    char *slash;

    ret[MAX(n, 0)] = 0;
    slash = strrchr(ret, '/');
    if (slash)
        *slash = 0;
}
