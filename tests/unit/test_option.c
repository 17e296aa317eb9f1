#include <stdio.h>
#include <string.h>

#include "proto/option.h"
#include "tests/support/cmocka.h"

typedef struct Values {
    bool loud;
    char *name, *mode, **notes;
    double ratio, seconds, ttl;
    uint64_t count, size, bounded;
} Values;

static const Option rows[] = {
    {.letter = 'l',
     .name = "loud",
     .type = OPTION_FLAG,
     .offset = offsetof(Values, loud),
     .help = "says more"},
    {.letter = 'n',
     .name = "full_name",
     .type = OPTION_TEXT,
     .offset = offsetof(Values, name),
     .argument = "NAME",
     .help = "of whom",
     .value = "nobody"},
    {.name = "mode",
     .type = OPTION_CHOICE,
     .offset = offsetof(Values, mode),
     .argument = "MODE",
     .choices = "one|two|three",
     .help = "how"},
    {.name = "note",
     .type = OPTION_PAIRS,
     .offset = offsetof(Values, notes),
     .argument = "TEXT",
     .help = "more"},
    {.name = "ratio",
     .type = OPTION_NUMBER,
     .offset = offsetof(Values, ratio),
     .most = 2,
     .argument = "NUMBER"},
    {.name = "seconds",
     .type = OPTION_SECONDS,
     .offset = offsetof(Values, seconds),
     .least = OPTION_ABOVE_ZERO,
     .argument = "SECONDS"},
    {.name = "ttl",
     .type = OPTION_SECONDS,
     .offset = offsetof(Values, ttl),
     .zero = -1,
     .argument = "SECONDS"},
    {.name = "count",
     .type = OPTION_COUNT,
     .offset = offsetof(Values, count),
     .least = 1,
     .argument = "NUMBER"},
    {.name = "size",
     .type = OPTION_SIZE,
     .offset = offsetof(Values, size),
     .argument = "SIZE",
     .value = "1k"},
    {.name = "bounded",
     .type = OPTION_SIZE,
     .offset = offsetof(Values, bounded),
     .least = 4 << 20,
     .most = 8.0 * (1ull << 40),
     .argument = "SIZE"},
};

static const OptionTable table = {rows, ARRAY_SIZE(rows)};

static int parse(Values *values, Problem *problem, const char *const *words)
{
    static char copies[8][64];
    char *argv[9] = {(char *)"program"};
    int argc = 1;

    *problem = PROBLEM_NULL;
    for (; words[argc - 1]; argc++) {
        strcpy(copies[argc - 1], words[argc - 1]);
        argv[argc] = copies[argc - 1];
    }
    return option_table_arguments(&table, values, argc, argv, problem);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(test_arguments)
{
    Values values = {0};
    Problem problem;

    assert_int_equal(parse(&values, &problem,
                           WORDS("-l", "operand", "--full-name=A", "--mode", "two", "--note=x", "--note=y")),
                     7);
    assert_true(values.loud);
    assert_string_equal(values.name, "A");
    assert_string_equal(values.mode, "two");
    assert_string_equal(values.notes[0], "x");
    assert_string_equal(values.notes[1], "y");
    assert_null(values.notes[2]);
    assert_int_equal(parse(&values, &problem,
                           WORDS("-nB", "--ratio=2", "--seconds=0.5", "--ttl=0", "--count=7", "--size=1.5m",
                                 "--bounded=8t")),
                     8);
    assert_string_equal(values.name, "B"); /* the last one holds */
    assert_true(values.ratio == 2 && values.seconds == 0.5 && values.ttl == -1);
    assert_int_equal(values.count, 7);
    assert_int_equal(values.size, 3 << 19);
    assert_int_equal(values.bounded, UINT64_C(8) << 40);
    option_table_clear(&table, &values);
    assert_null(values.name);
    assert_null(values.notes);
}

TEST(test_refusals)
{
    static const struct {
        const char *word, *text;
    } cases[] = {
        {"--mode=four", "--mode cannot be 'four'; it takes one, two or three"},
        {"--mode=tw", "--mode cannot be 'tw'; it takes one, two or three"},
        {"--mode=", "--mode cannot be ''; it takes one, two or three"},
        {"--ratio=2.1", "--ratio cannot be '2.1'; it takes a number, from 0 to 2"},
        {"--ratio=nan", "--ratio cannot be 'nan'; it takes a number, from 0 to 2"},
        {"--seconds=0", "--seconds cannot be '0'; it takes a number of seconds, above 0"},
        {"--seconds=inf", "--seconds cannot be 'inf'; it takes a number of seconds, above 0"},
        {"--seconds=1s", "--seconds cannot be '1s'; it takes a number of seconds, above 0"},
        {"--ttl=-1", "--ttl cannot be '-1'; it takes a number of seconds, at least 0"},
        {"--count=0", "--count cannot be '0'; it takes a whole number, at least 1"},
        {"--count=-1", "--count cannot be '-1'; it takes a whole number, at least 1"},
        {"--count=1.5", "--count cannot be '1.5'; it takes a whole number, at least 1"},
        {"--count=99999999999999999999",
         "--count cannot be '99999999999999999999'; it takes a whole number, at least 1"},
        {"--size=lots", "--size cannot be 'lots'; it takes a size such as 512m, at least 0"},
        {"--size=9000000000g", "--size cannot be '9000000000g'; it takes a size such as 512m, at least 0"},
        {"--bounded=3m", "--bounded cannot be '3m'; it takes a size such as 512m, from 4m to 8t"},
        {"--no-such", "there is no option --no-such, or it is short for several"},
        {"--s", "there is no option --s, or it is short for several"},
        {"-x", "there is no option -x"},
        {"-n", "--full-name (-n) needs a value: NAME"},
        {"--mode", "--mode needs a value: MODE"},
        {"--loud=1", "--loud (-l) takes no value"},
        {"--help=1", "--help takes no value"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        Values values = {0};
        Problem problem;

        assert_true(parse(&values, &problem, WORDS(cases[i].word)) < 0);
        assert_string_equal(problem.text, cases[i].text);
        option_table_clear(&table, &values);
    }
}

TEST(test_help_asked_for)
{
    Values values = {0};
    Problem problem;

    assert_int_equal(parse(&values, &problem, WORDS("--help")), OPTION_HELP);
    assert_int_equal(parse(&values, &problem, WORDS("operand", "-h", "--no-such")), OPTION_HELP);
}

TEST(test_defaults_and_environment)
{
    Values values = {0};
    Problem problem = PROBLEM_NULL;

    assert_int_equal(option_table_defaults(&table, &values, &problem), 0);
    assert_string_equal(values.name, "nobody");
    assert_int_equal(values.size, 1024);
    setenv("LIMPET_FULL_NAME", "C", 1);
    setenv("LIMPET_COUNT", "", 1);
    assert_int_equal(option_table_environment(&table, &values, &problem), 0);
    assert_string_equal(values.name, "C");
    assert_int_equal(values.count, 0); /* empty is not set */
    setenv("LIMPET_COUNT", "many", 1);
    assert_true(option_table_environment(&table, &values, &problem) < 0);
    assert_string_equal(problem.text, "LIMPET_COUNT cannot be 'many'; it takes a whole number, at least 1");
    unsetenv("LIMPET_FULL_NAME");
    unsetenv("LIMPET_COUNT");
    option_table_clear(&table, &values);
}

TEST(test_check)
{
    Values values = {.ratio = 3, .bounded = 5 << 20, .size = UINT64_MAX};
    Problem problem = PROBLEM_NULL;

    assert_true(option_check(option_table_find(&table, "ratio"), &values, &problem) < 0);
    assert_string_equal(problem.text, "ratio must be from 0 to 2");
    assert_true(option_check(option_table_find(&table, "size"), &values, &problem) < 0);
    assert_int_equal(option_check(option_table_find(&table, "bounded"), &values, &problem), 0);
    assert_int_equal(option_check(option_table_find(&table, "mode"), &values, &problem), 0);
    assert_null(option_table_find(&table, "full-name"));
}

static void collect(void *out, const char *usage, const char *help)
{
    char *text = out;

    sprintf(text + strlen(text), "%s: %s\n", usage, help);
}

TEST(test_describe)
{
    char text[512] = "";

    option_table_describe(&table, collect, text);
    assert_string_equal(text, "-l, --loud: says more\n"
                              "-n, --full-name NAME: of whom (default nobody)\n"
                              "    --mode MODE: how\n"
                              "    --note TEXT: more\n"); /* those without help are not told of */
}
