#include "clients/c/cli/option.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIRST_LONG 256 /* getopt's value of an option without a letter: above every character */

static int complain(const Option *option, const char *text, const char *expected)
{
    fprintf(stderr, "limpet: --%s: '%s' is not %s\n", option->name, text, expected);
    return -EINVAL;
}

static int parse_number(const Option *option, void *value, const char *text)
{
    bool zero_allowed = option->type == OPTION_TTL;
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !isfinite(number) || number < 0 || (number == 0 && !zero_allowed))
        return complain(option, text, zero_allowed ? "a number of seconds" : "a number above 0");
    *(double *)value = zero_allowed && number == 0 ? LIMPET_FOREVER : number;
    return 0;
}

static int parse_count(const Option *option, void *value, const char *text)
{
    char *end;
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || number == 0)
        return complain(option, text, "a whole number above 0");
    *(uint64_t *)value = number;
    return 0;
}

static int append_text(const char ***list, const char *text)
{
    size_t n = 0;
    const char **grown;

    while (*list && (*list)[n])
        n++;
    grown = realloc(*list, (n + 2) * sizeof(*grown));
    if (!grown) {
        fprintf(stderr, "limpet: out of memory\n");
        return -EINVAL;
    }
    grown[n] = text;
    grown[n + 1] = NULL;
    *list = grown;
    return 0;
}

static int store(const Option *option, void *values, const char *text)
{
    void *value = (char *)values + option->offset;

    switch (option->type) {
    case OPTION_FLAG:
        *(bool *)value = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)value = text;
        return 0;
    case OPTION_NUMBER:
    case OPTION_TTL:
        return parse_number(option, value, text);
    case OPTION_COUNT:
        return parse_count(option, value, text);
    case OPTION_LIST:
        return append_text(value, text);
    }
    return -EINVAL;
}

/* The tables of getopt_long(), with --help at the end of both. */
static void make_tables(const Option *options, size_t n, struct option *longs, char *shorts)
{
    for (size_t i = 0; i < n; i++) {
        longs[i] = (struct option){
            .name = options[i].name,
            .has_arg = options[i].argument ? required_argument : no_argument,
            .val = FIRST_LONG + (int)i,
        };
        if (options[i].letter)
            *shorts++ = options[i].letter;
        if (options[i].letter && options[i].argument)
            *shorts++ = ':';
    }
    longs[n] = (struct option){.name = "help", .has_arg = no_argument, .val = 'h'};
    longs[n + 1] = (struct option){0};
    strcpy(shorts, "h");
}

static const Option *find(const Option *options, size_t n, int value)
{
    for (size_t i = 0; i < n; i++)
        if (value == FIRST_LONG + (int)i || value == options[i].letter)
            return &options[i];
    return NULL;
}

int options_parse(const Option *options, size_t n, void *values, int argc, char **argv)
{
    struct option longs[OPTIONS_MAX + 2];
    char shorts[2 * OPTIONS_MAX + 2];
    int value;

    make_tables(options, n, longs, shorts);
    while ((value = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const Option *option = find(options, n, value);
        int r;

        if (value == 'h')
            return OPTION_HELP;
        if (!option)
            return -EINVAL; /* getopt has said why */
        r = store(option, values, optarg);
        if (r < 0)
            return r;
    }
    return optind;
}

void options_deinit(const Option *options, size_t n, void *values)
{
    for (size_t i = 0; i < n; i++)
        if (options[i].type == OPTION_LIST)
            free(*(const char ***)((char *)values + options[i].offset));
}

void options_describe(const Option *options, size_t n, void (*write)(const char *usage, const char *help))
{
    for (size_t i = 0; i < n; i++) {
        const Option *option = &options[i];
        char letter[] = {'-', option->letter, ',', ' ', 0};
        char usage[80];

        snprintf(usage, sizeof(usage), "%s--%s%s%s", option->letter ? letter : "    ", option->name,
                 option->argument ? " " : "", option->argument ? option->argument : "");
        write(usage, option->help);
    }
    write("-h, --help", "show this help");
}
