#include "host/config/options.h"

#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <string.h>

#include "host/config/standard.h"
#include "proto/limits.h"
#include "proto/option.h"

/* Options and actions given on a command line. */
typedef struct Given {
    Options options;
    char *config;
    bool detach, egress, check, man, version;
} Given;

#define FLAG(name_, help_)                                                                                   \
    {                                                                                                        \
        .name = #name_, .type = OPTION_FLAG, .offset = offsetof(Given, name_), .help = help_                 \
    }

/* First what only a command line may say. */
static const Option rows[] = {
    {.name = "config",
     .type = OPTION_TEXT,
     .offset = offsetof(Given, config),
     .argument = "FILE",
     .help = "read options from FILE (lines `name = value`)"},
    FLAG(detach, "serve in the background; return when the socket answers"),
    FLAG(egress, "serve no sessions; connect those of pods to the network, by egress_key, at `listen`"),
    FLAG(check, "report what this host supports and how to enable the rest"),
    FLAG(version, "print the version"),
    FLAG(man, NULL),
#define OPTION(name_, type_, value_, least_, most_, argument_, help_)                                        \
    {.name = #name_,                                                                                         \
     .type = OPTION_##type_,                                                                                 \
     .offset = offsetof(Given, options.name_),                                                               \
     .least = least_,                                                                                        \
     .most = most_,                                                                                          \
     .argument = argument_,                                                                                  \
     .choices = argument_,                                                                                   \
     .help = help_,                                                                                          \
     .value = value_},
#include "host/config/options.def"
#undef OPTION
};

enum {
    SETTINGS = 0
#define OPTION(...) +1
#include "host/config/options.def"
#undef OPTION
};

static const OptionTable everything = {rows, ARRAY_SIZE(rows)};
static const OptionTable commands = {rows, ARRAY_SIZE(rows) - SETTINGS};
static const OptionTable settings = {rows + ARRAY_SIZE(rows) - SETTINGS, SETTINGS};

typedef struct FileContext {
    Given *given;
    Problem *problem;
    const char *path;
    bool failed;
} FileContext;

/* inih's handler: 1 to go on, 0 to stop. */
static int on_file_pair(void *userdata, const char *section, const char *name, const char *value)
{
    FileContext *context = userdata;
    const Option *option = option_table_find(&settings, name);

    if (!option)
        problem_set(context->problem, ERR_BAD_REQUEST,
                    "unknown option '%s'; limpetd --help lists the options", name);
    if (!option || option_set(option, context->given, name, value, context->problem) < 0) {
        problem_prefix(context->problem, "%s", context->path);
        context->failed = true;
    }
    return !context->failed;
}

static int load_file(Given *given, const char *path, bool must_exist, Problem *problem)
{
    FileContext context = {.given = given, .problem = problem, .path = path};
    int r = ini_parse(path, on_file_pair, &context);

    if (context.failed)
        return -EINVAL;
    if (r == -1 && must_exist)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot read the configuration file %s: %s", path,
                           strerror(errno));
    if (r > 0)
        return problem_set(problem, ERR_BAD_REQUEST, "%s, line %d: not of the form `name = value`", path, r);
    return 0;
}

static void refer_to_help(Problem *problem)
{
    size_t n = strlen(problem->text);

    snprintf(problem->text + n, sizeof(problem->text) - n, "; see limpetd --help");
}

/* The command line alone: what is to be done, and where the config file is. */
static int first_look(int argc, char **argv, Action *ret_action, char **ret_config, Problem *problem)
{
    Given given = {0};
    int r = option_table_arguments(&everything, &given, argc, argv, problem);

    if (r >= 0 && r < argc)
        r = problem_set(problem, ERR_BAD_REQUEST, "unexpected argument '%s'; limpetd takes only options",
                        argv[r]);
    if (r < 0 && r != OPTION_HELP)
        refer_to_help(problem);
    *ret_action = r == OPTION_HELP ? ACTION_HELP
                  : given.man      ? ACTION_MAN
                  : given.version  ? ACTION_VERSION
                  : given.check    ? ACTION_CHECK
                  : given.egress   ? ACTION_EGRESS
                  : given.detach   ? ACTION_DETACH
                                   : ACTION_SERVE;
    *ret_config = take(given.config);
    option_table_clear(&everything, &given);
    return r;
}

/* Each source takes the place of those before it. */
static int load(Given *given, const char *config, int argc, char **argv, Problem *problem)
{
    char standard[256];
    int r = option_table_defaults(&settings, given, problem);

    if (r < 0)
        return r;
    standard_config(standard, sizeof(standard));
    r = load_file(given, config ? config : standard, config != NULL, problem);
    if (r < 0)
        return r;
    r = option_table_environment(&settings, given, problem);
    if (r < 0)
        return r;
    return option_table_arguments(&everything, given, argc, argv, problem);
}

int options_load(Options *options, int argc, char **argv, Action *ret_action, Problem *problem)
{
    Given given = {.options = *options};
    char *config _cleanup_(freep) = NULL;
    int r = first_look(argc, argv, ret_action, &config, problem);

    if (r == OPTION_HELP)
        r = option_table_defaults(&settings, &given, problem);
    else if (r >= 0)
        r = load(&given, config, argc, argv, problem);
    *options = given.options;
    option_table_clear(&commands, &given);
    return MIN(r, 0);
}

void options_deinit(Options *options)
{
    Given given = {.options = *options};

    option_table_clear(&settings, &given);
    *options = given.options;
}

static void print_help_row(void *out, const char *usage, const char *help)
{
    fprintf(out, "  %-24s  %s\n", usage + strspn(usage, " "), help);
}

/* ---- handing them on ---- */

static char *variable_of(const Option *option, const Given *given)
{
    const void *at = (const char *)given + option->offset;
    char name[64], *variable = NULL;
    int n;

    option_variable(option, name, sizeof(name));
    if (option->type == OPTION_NUMBER || option->type == OPTION_SECONDS)
        n = asprintf(&variable, "%s=%.17g", name, *(const double *)at);
    else if (option->type == OPTION_COUNT || option->type == OPTION_SIZE)
        n = asprintf(&variable, "%s=%" PRIu64, name, *(const uint64_t *)at);
    else
        n = asprintf(&variable, "%s=%s", name, *(char *const *)at);
    return n < 0 ? NULL : variable;
}

/* The first of a name is the one that is read. */
char **options_environment(const Options *options)
{
    const Given given = {.options = *options};
    size_t n = 0;
    char **list;

    while (environ[n])
        n++;
    list = calloc(SETTINGS + n + 1, sizeof(*list));
    if (!list)
        return NULL;
    for (size_t i = 0; i < SETTINGS; i++)
        if (!(list[i] = variable_of(&settings.rows[i], &given)))
            return NULL;
    memcpy(list + SETTINGS, environ, n * sizeof(*list));
    return list;
}

/* Reads the options from the environment, empty ones too: empty is not their default. */
int options_inherit(Options *options, Problem *problem)
{
    Given given = {.options = *options};
    char variable[64];
    int r = 0;

    for (size_t i = 0; r == 0 && i < SETTINGS; i++) {
        option_variable(&settings.rows[i], variable, sizeof(variable));
        const char *text = getenv(variable);

        r = option_set(&settings.rows[i], &given, variable, text ? text : "", problem);
    }
    *options = given.options;
    return r;
}

/* ---- telling of them ---- */

void options_print_help(FILE *out)
{
    fprintf(out, "usage: limpetd [--config FILE] [--detach | --check] [OPTION...]\n\n"
                 "The controller of Limpet: live Python sessions in containers.\n\n");
    option_table_describe(&commands, print_help_row, out);
    print_help_row(out, "--help", "show this help");
    fprintf(out, "\nOptions, also as `name = value` in the configuration file and as LIMPET_NAME in the "
                 "environment:\n\n");
    option_table_describe(&settings, print_help_row, out);
}

static void print_man_row(FILE *out, const Option *option)
{
    char flag[64], variable[64];

    option_flag(option, flag, sizeof(flag));
    option_variable(option, variable, sizeof(variable));
    fprintf(out, ".TP\n.BR \\-\\-%s \" %s\"\n%s. Configuration file: %s. Environment: %s.\n", flag + 2,
            option->argument, option->help, option->name, variable);
    if (*option->value)
        fprintf(out, "Default: %s.\n", option->value);
}

void options_print_man(FILE *out)
{
    fprintf(out,
            ".TH LIMPETD 8 \"\" \"Limpet %s\"\n"
            ".SH NAME\n"
            "limpetd \\- controller of live Python sessions in containers\n"
            ".SH SYNOPSIS\n"
            ".B limpetd\n"
            "[\\-\\-config FILE] [\\-\\-detach | \\-\\-check] [OPTION...]\n"
            ".SH DESCRIPTION\n"
            "Runs each session as a live CPython in a container and serves clients on one "
            "socket. Options come from the command line, the environment, and the configuration file "
            "(/etc/limpet/limpetd.conf for root, otherwise limpet/limpetd.conf in the XDG configuration "
            "directory), in this order of precedence.\n"
            ".SH OPTIONS\n"
            ".TP\n"
            ".B \\-\\-check\n"
            "Report what this host supports and how to enable the rest.\n"
            ".TP\n"
            ".B \\-\\-detach\n"
            "Serve in the background; return when the socket answers.\n",
            LIMPET_VERSION);
    for (size_t i = 0; i < settings.n; i++)
        print_man_row(out, &settings.rows[i]);
    fputs(".SH CONTAINERS\n"
          "Each container has two labels: \\fIlimpet.owner\\fR identifies the state directory, and "
          "\\fIlimpet.session\\fR is the name of the session, or ~ and an id for a container of the pool. "
          "\\fBlimpet ls \\-\\-json\\fR shows the container of each session.\n"
          ".SH SEE ALSO\n"
          ".BR limpet (1)\n",
          out);
}
