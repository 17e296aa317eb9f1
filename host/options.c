#include "host/options.h"

#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <string.h>

#include "host/paths.h"
#include "proto/wire.h"

typedef enum OptionType {
    TYPE_TEXT,
    TYPE_CHOICE,
    TYPE_SECONDS,
    TYPE_NUMBER,
    TYPE_SIZE,
    TYPE_COUNT
} OptionType;

typedef struct OptionEntry {
    const char *name; /* as in the config file */
    OptionType type;
    size_t offset;
    const char *argument;
    const char *help;
    const char *value; /* the default, as one would write it */
} OptionEntry;

static OptionEntry entries[] = {
#define OPTION(name_, type_, value_, argument_, help_)                                                       \
    {.name = #name_,                                                                                         \
     .type = TYPE_##type_,                                                                                   \
     .offset = offsetof(Options, name_),                                                                     \
     .argument = argument_,                                                                                  \
     .help = help_,                                                                                          \
     .value = #value_},
#include "host/options.def"
#undef OPTION
};

#define FLAG_FIRST 0x100

static void entry_spellings(const OptionEntry *entry, char *flag, char *variable, size_t size)
{
    size_t n = MIN(strlen(entry->name), size - 8);

    strcpy(variable, "LIMPET_");
    for (size_t i = 0; i <= n; i++) {
        char c = i < n ? entry->name[i] : '\0';
        flag[i] = c == '_' ? '-' : c;
        variable[7 + i] = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
    }
}

static const OptionEntry *entry_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

static int set_number(double *ret, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0 && value <= 1e9))
        return -EINVAL;
    *ret = value;
    return 0;
}

static int set_count(uint64_t *ret, const char *text)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (end == text || *end || errno || value > 1000000)
        return -EINVAL;
    *ret = value;
    return 0;
}

static int set_text(char **ret, const char *text)
{
    char *copy = strdup(text);

    if (!copy)
        return -ENOMEM;
    free(*ret);
    *ret = copy;
    return 0;
}

/* One of the words of `choices`, which are separated by bars. */
static int set_choice(char **ret, const char *choices, const char *text)
{
    size_t n = strlen(text);

    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == n && strncmp(at, text, n) == 0)
            return set_text(ret, text);
    return -EINVAL;
}

static int entry_set(const OptionEntry *entry, Options *options, const char *text, const char *source,
                     Problem *problem)
{
    void *at = (char *)options + entry->offset;
    int r = -EINVAL;

    switch (entry->type) {
    case TYPE_TEXT:
        r = set_text(at, text);
        break;
    case TYPE_CHOICE:
        r = set_choice(at, entry->argument, text);
        break;
    case TYPE_SECONDS:
    case TYPE_NUMBER:
        r = set_number(at, text);
        break;
    case TYPE_SIZE:
        r = size_parse(text, strlen(text), at);
        break;
    case TYPE_COUNT:
        r = set_count(at, text);
        break;
    }
    if (r < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "%s: %s cannot be '%s'; it takes %s", source,
                           entry->name, text, entry->argument);
    return 0;
}

static int set_defaults(Options *options, Problem *problem)
{
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        char text[64] = "";
        size_t n = strlen(entries[i].value);
        bool quoted = entries[i].value[0] == '"';
        memcpy(text, entries[i].value + quoted, MIN(n - 2 * quoted, sizeof(text) - 1));
        if (entry_set(&entries[i], options, text, "default", problem) < 0)
            return -EINVAL;
    }
    return 0;
}

typedef struct FileContext {
    Options *options;
    Problem *problem;
    const char *path;
    bool failed;
} FileContext;

/* inih's handler: 1 to go on, 0 to stop. */
static int on_file_pair(void *userdata, const char *section, const char *name, const char *value)
{
    FileContext *context = userdata;
    const OptionEntry *entry = entry_find(name);

    if (!entry)
        problem_set(context->problem, ERR_BAD_REQUEST,
                    "%s: there is no option '%s'; limpetd --help lists them", context->path, name);
    if (!entry || entry_set(entry, context->options, value, context->path, context->problem) < 0)
        context->failed = true;
    return !context->failed;
}

static int load_file(Options *options, const char *path, bool must_exist, Problem *problem)
{
    FileContext context = {.options = options, .problem = problem, .path = path};
    int r = ini_parse(path, on_file_pair, &context);

    if (context.failed)
        return -EINVAL;
    if (r == -1 && must_exist)
        return problem_set(problem, ERR_BAD_REQUEST, "the config file %s cannot be read: %s", path,
                           strerror(errno));
    if (r > 0)
        return problem_set(problem, ERR_BAD_REQUEST, "%s, line %d: it should read `name = value`", path, r);
    return 0;
}

static int load_environment(Options *options, Problem *problem)
{
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        char flag[64], variable[64];
        const char *value;
        entry_spellings(&entries[i], flag, variable, sizeof(flag));
        value = getenv(variable);
        if (value && *value && entry_set(&entries[i], options, value, variable, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

enum { FLAG_CONFIG = 1, FLAG_DETACH, FLAG_CHECK, FLAG_HELP, FLAG_MAN, FLAG_VERSION };

typedef struct Flags {
    struct option table[ARRAY_SIZE(entries) + 7];
    char names[ARRAY_SIZE(entries)][64];
} Flags;

static void make_flags(Flags *flags)
{
    static const struct option fixed[] = {
        {"config", required_argument, NULL, FLAG_CONFIG},
        {"detach", no_argument, NULL, FLAG_DETACH},
        {"check", no_argument, NULL, FLAG_CHECK},
        {"help", no_argument, NULL, FLAG_HELP},
        {"man", no_argument, NULL, FLAG_MAN},
        {"version", no_argument, NULL, FLAG_VERSION},
        {0},
    };
    char variable[64];

    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        entry_spellings(&entries[i], flags->names[i], variable, sizeof(variable));
        flags->table[i] = (struct option){flags->names[i], required_argument, NULL, FLAG_FIRST + (int)i};
    }
    memcpy(&flags->table[ARRAY_SIZE(entries)], fixed, sizeof(fixed));
}

static Action action_of(int flag)
{
    switch (flag) {
    case FLAG_DETACH:
        return ACTION_DETACH;
    case FLAG_CHECK:
        return ACTION_CHECK;
    case FLAG_HELP:
        return ACTION_HELP;
    case FLAG_MAN:
        return ACTION_MAN;
    default:
        return ACTION_VERSION;
    }
}

/* Walks the command line; with options NULL only the action and the config file are looked for. */
static int walk_arguments(int argc, char **argv, Options *options, Action *action, const char **config,
                          Problem *problem)
{
    Flags flags;
    int flag;

    make_flags(&flags);
    optind = 0;
    opterr = 0;
    while ((flag = getopt_long(argc, argv, "", flags.table, NULL)) != -1) {
        if (flag == '?')
            return problem_set(problem, ERR_BAD_REQUEST,
                               "%s: unknown option or missing value; see limpetd --help", argv[optind - 1]);
        if (flag == FLAG_CONFIG)
            *config = optarg;
        else if (flag < FLAG_FIRST)
            *action = action_of(flag);
        else if (options &&
                 entry_set(&entries[flag - FLAG_FIRST], options, optarg, "command line", problem) < 0)
            return -EINVAL;
    }
    if (optind < argc)
        return problem_set(problem, ERR_BAD_REQUEST, "'%s' is not understood; limpetd takes options only",
                           argv[optind]);
    return 0;
}

int options_load(Options *options, int argc, char **argv, Action *ret_action, Problem *problem)
{
    const char *config = NULL;
    char standard[256];
    int r;

    *ret_action = ACTION_SERVE;
    r = walk_arguments(argc, argv, NULL, ret_action, &config, problem);
    if (r < 0)
        return r;
    r = set_defaults(options, problem);
    if (r < 0)
        return r;
    paths_standard_config(standard, sizeof(standard));
    r = load_file(options, config ? config : standard, config != NULL, problem);
    if (r < 0)
        return r;
    r = load_environment(options, problem);
    if (r < 0)
        return r;
    return walk_arguments(argc, argv, options, ret_action, &config, problem);
}

void options_deinit(Options *options)
{
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        char **text = (char **)((char *)options + entries[i].offset);
        if (entries[i].type == TYPE_TEXT || entries[i].type == TYPE_CHOICE) {
            free(*text);
            *text = NULL;
        }
    }
}

void options_print_help(FILE *out)
{
    char flag[64], variable[64];

    fprintf(out,
            "usage: limpetd [--config FILE] [--detach | --check] [OPTION...]\n\n"
            "The controller of Limpet: live Python sessions in containers.\n\n"
            "  --config FILE             read options from FILE (name = value lines)\n"
            "  --detach                  return when the socket answers, serve in the background\n"
            "  --check                   say what this host can do, and what to do about the rest\n"
            "  --version                 print the version\n"
            "  --help                    print this\n\n"
            "Options, also as `name = value` in the config file and as LIMPET_NAME in the environment:\n\n");
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        char left[96];
        entry_spellings(&entries[i], flag, variable, sizeof(flag));
        snprintf(left, sizeof(left), "--%s %s", flag, entries[i].argument);
        fprintf(out, "  %-24s  %s", left, entries[i].help);
        if (strcmp(entries[i].value, "\"\"") != 0)
            fprintf(out, " [%s]", entries[i].value);
        fputc('\n', out);
    }
}

void options_print_man(FILE *out)
{
    char flag[64], variable[64];

    fprintf(
        out,
        ".TH LIMPETD 8 \"\" \"Limpet %s\"\n.SH NAME\nlimpetd \\- controller of live Python sessions in "
        "containers\n.SH SYNOPSIS\n.B limpetd\n[\\-\\-config FILE] [\\-\\-detach | \\-\\-check] [OPTION...]\n"
        ".SH DESCRIPTION\nKeeps a live CPython in a container for each session and answers clients on one "
        "socket. Each option may stand on the command line, in the environment, or in the config file "
        "(/etc/limpet/limpetd.conf for root, otherwise limpet/limpetd.conf under the XDG configuration "
        "directory), in this order of precedence.\n.SH OPTIONS\n"
        ".TP\n.B \\-\\-check\nSay what this host can and cannot do, and what to do about each.\n"
        ".TP\n.B \\-\\-detach\nServe in the background; return when the socket answers.\n",
        LIMPET_VERSION);
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        entry_spellings(&entries[i], flag, variable, sizeof(flag));
        fprintf(out, ".TP\n.BR \\-\\-%s \" %s\"\n%s. Config: %s. Environment: %s.\n", flag,
                entries[i].argument, entries[i].help, entries[i].name, variable);
        if (strcmp(entries[i].value, "\"\"") != 0)
            fprintf(out, "Default: %s.\n", entries[i].value);
    }
    fputs(".SH CONTAINERS\nHave the labels \\fIlimpet.owner\\fR, which tells state directories apart, and "
          "\\fIlimpet.session\\fR: the name of the session, or where the container was made before anyone "
          "asked "
          "(\\-\\-pool), ~ and an id of its own. limpet ls tells which session has which container.\n"
          ".SH SEE ALSO\n.BR limpet (1)\n",
          out);
}
