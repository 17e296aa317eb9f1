#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "proto/option.h"

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
