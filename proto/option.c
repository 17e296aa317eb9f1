#include "proto/option.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/wire.h"

#define RANGE_MAX  64
#define WANTED_MAX 128

/* ---- what an option may be -------------------------------------------------------------------------------
 */

/* A bound as one would write it. */
static void say_bound(const Option *option, double bound, char *ret, size_t size)
{
    static const char *const units[] = {"", "k", "m", "g", "t"};
    uint64_t bytes = (uint64_t)bound;
    int unit = 0;

    if (option->type != OPTION_SIZE) {
        snprintf(ret, size, "%.10g", bound);
        return;
    }
    while (unit < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(ret, size, "%" PRIu64 "%s", bytes, units[unit]);
}

/* "from 4m to 8t", "above 0", "at least 64m" */
static void say_range(const Option *option, char *ret, size_t size)
{
    char least[24], most[24];

    say_bound(option, option->least, least, sizeof(least));
    say_bound(option, option->most, most, sizeof(most));
    if (option->least == OPTION_ABOVE_ZERO)
        snprintf(ret, size, "above 0%s%s", option->most > 0 ? " and at most " : "",
                 option->most > 0 ? most : "");
    else if (option->most > 0)
        snprintf(ret, size, "from %s to %s", least, most);
    else
        snprintf(ret, size, "at least %s", least);
}

/* "one, two or three" */
static void say_choices(const char *choices, char *ret, size_t size)
{
    *ret = '\0';
    for (const char *word = choices; *word; word += strcspn(word, "|") + (word[strcspn(word, "|")] == '|')) {
        size_t at = strlen(ret);
        const char *before = word == choices ? "" : strchr(word, '|') ? ", " : " or ";

        snprintf(ret + at, size - at, "%s%.*s", before, (int)strcspn(word, "|"), word);
    }
}

static const char *noun(OptionType type)
{
    switch (type) {
    case OPTION_SECONDS:
        return "a number of seconds";
    case OPTION_COUNT:
        return "a whole number";
    case OPTION_SIZE:
        return "a size such as 512m";
    default:
        return "a number";
    }
}

static void say_wanted(const Option *option, char *ret, size_t size)
{
    char range[RANGE_MAX];

    if (option->type == OPTION_CHOICE) {
        say_choices(option->choices, ret, size);
        return;
    }
    say_range(option, range, sizeof(range));
    snprintf(ret, size, "%s, %s", noun(option->type), range);
}

static bool in_range(const Option *option, double value)
{
    return isfinite(value) && value >= option->least && (option->most <= 0 || value <= option->most);
}

static bool size_in_range(const Option *option, uint64_t value)
{
    return value <= INT64_MAX && in_range(option, (double)value);
}

int option_check(const Option *option, const void *values, Problem *problem)
{
    const void *at = (const char *)values + option->offset;
    char range[RANGE_MAX];
    bool good = true;

    if (option->type == OPTION_NUMBER || option->type == OPTION_SECONDS)
        good = in_range(option, *(const double *)at);
    else if (option->type == OPTION_COUNT || option->type == OPTION_SIZE)
        good = size_in_range(option, *(const uint64_t *)at);
    if (good)
        return 0;
    say_range(option, range, sizeof(range));
    return problem_set(problem, ERR_BAD_REQUEST, "%s must be %s", option->name, range);
}

/* ---- reading texts ---------------------------------------------------------------------------------------
 */

static int set_number(const Option *option, double *ret, const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !in_range(option, value))
        return -EINVAL;
    *ret = value == 0 && option->zero != 0 ? option->zero : value;
    return 0;
}

static int set_count(const Option *option, uint64_t *ret, const char *text)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || !in_range(option, (double)value))
        return -EINVAL;
    *ret = value;
    return 0;
}

static int set_size(const Option *option, uint64_t *ret, const char *text)
{
    uint64_t value;

    if (size_parse(text, strlen(text), &value) < 0 || !size_in_range(option, value))
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

static int set_choice(const Option *option, char **ret, const char *text)
{
    size_t n = strlen(text);

    for (const char *at = option->choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == n && strncmp(at, text, n) == 0)
            return set_text(ret, text);
    return -EINVAL;
}

static int append_text(char ***list, const char *text)
{
    size_t n = 0;
    char **grown;

    while (*list && (*list)[n])
        n++;
    grown = realloc(*list, (n + 2) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    *list = grown;
    grown[n] = strdup(text);
    grown[n + 1] = NULL;
    return grown[n] ? 0 : -ENOMEM;
}

static int store(const Option *option, void *values, const char *text)
{
    void *at = (char *)values + option->offset;

    switch (option->type) {
    case OPTION_FLAG:
        *(bool *)at = true;
        return 0;
    case OPTION_TEXT:
    case OPTION_DIRECTORY:
        return set_text(at, text);
    case OPTION_CHOICE:
        return set_choice(option, at, text);
    case OPTION_NUMBER:
    case OPTION_SECONDS:
        return set_number(option, at, text);
    case OPTION_COUNT:
        return set_count(option, at, text);
    case OPTION_SIZE:
        return set_size(option, at, text);
    case OPTION_PAIRS:
    case OPTION_LIST:
        return append_text(at, text);
    case OPTION_BINDINGS:
        break;
    }
    return -EINVAL;
}

int option_set(const Option *option, void *values, const char *called, const char *text, Problem *problem)
{
    int r = store(option, values, text);
    char wanted[WANTED_MAX];

    if (r == -ENOMEM)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (r == 0)
        return 0;
    say_wanted(option, wanted, sizeof(wanted));
    return problem_set(problem, ERR_BAD_REQUEST, "%s cannot be '%s'; it takes %s", called, text, wanted);
}

/* ---- names -----------------------------------------------------------------------------------------------
 */

void option_flag(const Option *option, char *ret, size_t size)
{
    snprintf(ret, size, "--%s", option->name);
    for (char *c = ret; *c; c++)
        if (*c == '_')
            *c = '-';
}

void option_variable(const Option *option, char *ret, size_t size)
{
    snprintf(ret, size, "LIMPET_%s", option->name);
    for (char *c = ret; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

/* "-t, --timeout SECONDS", or "    --memory SIZE" */
static void option_usage(const Option *option, char *ret, size_t size)
{
    char letter[] = {'-', option->letter, ',', ' ', '\0'};
    char flag[64];

    option_flag(option, flag, sizeof(flag));
    snprintf(ret, size, "%s%s%s%s", option->letter ? letter : "    ", flag, option->argument ? " " : "",
             option->argument ? option->argument : "");
}

const Option *option_table_find(const OptionTable *table, const char *name)
{
    for (size_t i = 0; i < table->n; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return &table->rows[i];
    return NULL;
}

void option_table_describe(const OptionTable *table,
                           void (*write)(void *out, const char *usage, const char *help), void *out)
{
    for (size_t i = 0; i < table->n; i++) {
        const Option *option = &table->rows[i];
        bool has_value = option->value && *option->value;
        char usage[96], help[512];

        if (!option->help)
            continue;
        option_usage(option, usage, sizeof(usage));
        snprintf(help, sizeof(help), "%s%s%s%s", option->help, has_value ? " (default " : "",
                 has_value ? option->value : "", has_value ? ")" : "");
        write(out, usage, help);
    }
}

/* ---- where options come from -----------------------------------------------------------------------------
 */

int option_table_defaults(const OptionTable *table, void *values, Problem *problem)
{
    for (size_t i = 0; i < table->n; i++) {
        const Option *option = &table->rows[i];

        if (option->value && option_set(option, values, option->name, option->value, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

int option_table_environment(const OptionTable *table, void *values, Problem *problem)
{
    for (size_t i = 0; i < table->n; i++) {
        char variable[64];
        const char *text;

        option_variable(&table->rows[i], variable, sizeof(variable));
        text = getenv(variable);
        if (text && *text && option_set(&table->rows[i], values, variable, text, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

static void clear_pairs(char **pairs)
{
    for (char **pair = pairs; pair && *pair; pair++)
        free(*pair);
    free(pairs);
}

void option_table_clear(const OptionTable *table, void *values)
{
    for (size_t i = 0; i < table->n; i++) {
        void *at = (char *)values + table->rows[i].offset;

        switch (table->rows[i].type) {
        case OPTION_TEXT:
        case OPTION_CHOICE:
        case OPTION_DIRECTORY:
            free(*(char **)at);
            *(char **)at = NULL;
            break;
        case OPTION_PAIRS:
        case OPTION_LIST:
            clear_pairs(*(char ***)at);
            *(char ***)at = NULL;
            break;
        default:
            break;
        }
    }
}

#define FLAG_FIRST 0x100 /* getopt's value of the first row: above every letter */
#define FLAG_HELP  'h'

/* Options in the form of getopt_long(). */
typedef struct Flags {
    struct option longs[OPTION_ROWS_MAX + 2];
    char names[OPTION_ROWS_MAX][64]; /* with their dashes */
    char letters[2 * OPTION_ROWS_MAX + 3];
} Flags;

static void make_flags(const OptionTable *table, Flags *ret)
{
    char *letter = ret->letters;

    *letter++ = ':'; /* a missing argument is told apart from an unknown option */
    *letter++ = FLAG_HELP;
    for (size_t i = 0; i < table->n; i++) {
        const Option *option = &table->rows[i];

        option_flag(option, ret->names[i], sizeof(ret->names[i]));
        ret->longs[i] = (struct option){
            .name = ret->names[i] + 2,
            .has_arg = option->type == OPTION_FLAG ? no_argument : required_argument,
            .val = FLAG_FIRST + (int)i,
        };
        if (option->letter)
            *letter++ = option->letter;
        if (option->letter && option->type != OPTION_FLAG)
            *letter++ = ':';
    }
    *letter = '\0';
    ret->longs[table->n] = (struct option){.name = "help", .has_arg = no_argument, .val = FLAG_HELP};
    ret->longs[table->n + 1] = (struct option){0};
}

/* The row of what getopt_long() found. */
static const Option *find(const OptionTable *table, int found)
{
    for (size_t i = 0; i < table->n; i++)
        if (found == FLAG_FIRST + (int)i || (found && found == table->rows[i].letter))
            return &table->rows[i];
    return NULL;
}

/* As it is written where a letter or an abbreviation may have been. */
static void say_called(const Option *option, char *ret, size_t size)
{
    size_t n;

    option_flag(option, ret, size);
    n = strlen(ret);
    if (option->letter && n < size)
        snprintf(ret + n, size - n, " (-%c)", option->letter);
}

/* Says why getopt_long() returned ':' or '?'. */
static int refuse(const OptionTable *table, int found, char *const *argv, Problem *problem)
{
    const Option *option = find(table, optopt);
    char called[80];

    if (option)
        say_called(option, called, sizeof(called));
    if (option && found == ':')
        return problem_set(problem, ERR_BAD_REQUEST, "%s needs a value: %s", called, option->argument);
    if (option || optopt == FLAG_HELP)
        return problem_set(problem, ERR_BAD_REQUEST, "%s takes no value", option ? called : "--help");
    if (optopt)
        return problem_set(problem, ERR_BAD_REQUEST, "there is no option -%c", optopt);
    return problem_set(problem, ERR_BAD_REQUEST, "there is no option %s, or it is short for several",
                       argv[optind - 1]);
}

int option_table_arguments(const OptionTable *table, void *values, int argc, char **argv, Problem *problem)
{
    Flags flags;
    int found;

    if (table->n > OPTION_ROWS_MAX)
        return problem_set(problem, ERR_INTERNAL, "a table cannot have more than %d options",
                           OPTION_ROWS_MAX);
    make_flags(table, &flags);
    optind = 0; /* begins anew */
    opterr = 0;
    while ((found = getopt_long(argc, argv, flags.letters, flags.longs, NULL)) != -1) {
        const Option *option = found == ':' || found == '?' ? NULL : find(table, found);
        char called[64];

        if (found == FLAG_HELP)
            return OPTION_HELP;
        if (!option)
            return refuse(table, found, argv, problem);
        option_flag(option, called, sizeof(called));
        if (option_set(option, values, called, optarg ? optarg : "", problem) < 0)
            return -EINVAL;
    }
    return optind;
}
