#include "clients/c/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* A line that is there as long as the copy of an artifact from another machine takes. */
static void show_artifact(void *context, const char *path, uint64_t done, uint64_t whole)
{
    char size[16], of[16];

    if (done < whole) {
        fprintf(stderr, "\r\033[K%s of %s ", cli_size(size, sizeof(size), done),
                cli_size(of, sizeof(of), whole));
        cli_print_name(stderr, path);
    } else {
        fputs("\r\033[K", stderr);
    }
    fflush(stderr);
}

LimpetClient *cli_connect(void)
{
    static bool warned;
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
    if (limpet_controller(client)->warning && !warned)
        fprintf(stderr, "limpet: warning: %s\n", limpet_controller(client)->warning);
    warned = true;
    if (isatty(STDERR_FILENO))
        limpet_set_artifacts_progress(client, show_artifact, NULL);
    return client;
}

int cli_fail(const LimpetClient *client)
{
    fprintf(stderr, "limpet: %s: %s\n", limpet_error(client)->name, limpet_error(client)->message);
    return EXIT_SANDBOX;
}

int cli_absolute(const char *path, char **ret)
{
    bool far = path && strncmp(path, "host:", strlen("host:")) == 0;
    char *absolute = far ? strdup(path) : path ? realpath(path, NULL) : NULL;

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
        fprintf(stderr, "limpet: '%s' does not have the form SESSION:PATH\n", operand);
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
        else if (*c == 0xc2 && (c[1] & 0xe0) == 0x80) /* U+0080 to U+009f */
            fprintf(file, "\\x%02x", *++c);
        else
            fputc(*c, file);
}

int cli_print_json(char *json)
{
    if (!json) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    puts(json);
    free(json);
    return 0;
}

void cli_print_notes(const char *prefix, const char *const *notes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(stderr, "limpet: %s: ", prefix);
        cli_print_name(stderr, notes[i]);
        fputc('\n', stderr);
    }
}

const char *cli_size(char *ret, size_t size, uint64_t bytes)
{
    static const char units[] = "BKMGT";
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= (unit ? 1023.95 : 1024) && units[unit + 1]) {
        value /= 1024;
        unit++;
    }
    snprintf(ret, size, "%.*f%c", unit > 0, value, units[unit]);
    return ret;
}

const char *cli_seconds(char *ret, size_t size, double seconds)
{
    uint64_t s = seconds > 0 ? (uint64_t)seconds : 0;

    if (s < 60)
        snprintf(ret, size, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(ret, size, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else
        snprintf(ret, size, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
    return ret;
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
