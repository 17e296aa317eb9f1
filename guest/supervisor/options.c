#include "guest/supervisor/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: limpet-guest [OPTION]...\n"
    "Supervises the Python interpreter of one Limpet session; process 1 of its sandbox.\n"
    "\n"
    "  --link DIR             directory with sock, session and secret (default /run/limpet)\n"
    "  --directory DIR        where the code runs and keeps its files (default /session)\n"
    "  --uid N                user and group of the interpreter (default 20001)\n"
    "  --same-user            run the interpreter as the supervisor's own user: no protection\n"
    "  --interpreter PATH     the interpreter (default limpet-interpreter beside this program)\n"
    "  --orphan-timeout SEC   end after so long without a controller (default 3600)\n"
    "  --help                 show this text\n"
    "  --version              show the version\n";

enum {
    OPTION_LINK = 256,
    OPTION_DIRECTORY,
    OPTION_UID,
    OPTION_SAME_USER,
    OPTION_INTERPRETER,
    OPTION_ORPHAN_TIMEOUT,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option table[] = {
    {"link", required_argument, NULL, OPTION_LINK},
    {"directory", required_argument, NULL, OPTION_DIRECTORY},
    {"uid", required_argument, NULL, OPTION_UID},
    {"same-user", no_argument, NULL, OPTION_SAME_USER},
    {"interpreter", required_argument, NULL, OPTION_INTERPRETER},
    {"orphan-timeout", required_argument, NULL, OPTION_ORPHAN_TIMEOUT},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {0},
};

static int refuse(const char *option, const char *value)
{
    fprintf(stderr, "limpet-guest: %s cannot be %s\n", option, value);
    return -EINVAL;
}

static int parse_uid(uid_t *ret, const char *text)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    /* 0 would give the code the supervisor's powers; the last value means "no change" to setresuid. */
    if (errno != 0 || end == text || *end || *text == '-' || value == 0 || value >= UINT32_MAX)
        return refuse("--uid", text);
    *ret = (uid_t)value;
    return 0;
}

static int parse_seconds(double *ret, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !isfinite(value) || value <= 0)
        return refuse("--orphan-timeout", text);
    *ret = value;
    return 0;
}

static int parse_interpreter(Options *options, const char *text)
{
    if (strlen(text) >= sizeof(options->interpreter))
        return refuse("--interpreter", text);
    strcpy(options->interpreter, text);
    return 0;
}

static int parse_option(Options *options, int option)
{
    switch (option) {
    case OPTION_LINK:
        options->link = optarg;
        return 0;
    case OPTION_DIRECTORY:
        options->directory = optarg;
        return 0;
    case OPTION_UID:
        return parse_uid(&options->uid, optarg);
    case OPTION_SAME_USER:
        options->same_user = true;
        return 0;
    case OPTION_INTERPRETER:
        return parse_interpreter(options, optarg);
    case OPTION_ORPHAN_TIMEOUT:
        return parse_seconds(&options->orphan_timeout, optarg);
    case OPTION_HELP:
        fputs(usage, stdout);
        return 1;
    case OPTION_VERSION:
        puts("limpet-guest " LIMPET_VERSION);
        return 1;
    default: /* getopt has said what is wrong */
        return -EINVAL;
    }
}

/* The interpreter is installed beside the supervisor. */
static int find_interpreter(Options *options)
{
    static const char name[] = "limpet-interpreter";
    ssize_t n = readlink("/proc/self/exe", options->interpreter, sizeof(options->interpreter) - sizeof(name));
    char *slash = n > 0 ? memrchr(options->interpreter, '/', (size_t)n) : NULL;

    if (!slash) {
        fputs("limpet-guest: cannot find its own path; use --interpreter\n", stderr);
        return -EINVAL;
    }
    strcpy(slash + 1, name);
    return 0;
}

int options_parse(Options *ret, int argc, char **argv)
{
    Options options = {.link = "/run/limpet", .directory = "/session", .uid = 20001, .orphan_timeout = 3600};
    int option;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        int r = parse_option(&options, option);
        if (r != 0)
            return r;
    }
    if (optind < argc) {
        fprintf(stderr, "limpet-guest: unexpected argument %s\n", argv[optind]);
        return -EINVAL;
    }
    /* The supervisor changes its working directory, and the interpreter's. */
    if (options.directory[0] != '/')
        return refuse("--directory", "a relative path");
    if (options.interpreter[0] && options.interpreter[0] != '/')
        return refuse("--interpreter", "a relative path");
    if (!options.interpreter[0] && find_interpreter(&options) < 0)
        return -EINVAL;
    *ret = options;
    return 0;
}
