#include <stdlib.h>
#include <string.h>

#include "host/config/options.h"
#include "tests/support/cmocka.h"

/* Loads with a config file of this content; the arguments follow. */
static int load(Options *options, const char *config, const char *const *more, size_t n, Problem *problem)
{
    char path[] = "/tmp/limpet-test-options-XXXXXX";
    char *argv[8] = {(char *)"limpetd", (char *)"--config", path};
    int fd = mkstemp(path);
    Action action;
    int r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, config, strlen(config)), (ssize_t)strlen(config));
    close(fd);
    for (size_t i = 0; i < n; i++)
        argv[3 + i] = (char *)more[i];
    r = options_load(options, 3 + (int)n, argv, &action, problem);
    unlink(path);
    return r;
}

TEST(test_precedence)
{
    const char *const arguments[] = {"--timeout", "7"};
    Options options = {0};
    Problem problem = PROBLEM_NULL;

    setenv("LIMPET_TIMEOUT", "6", 1);
    setenv("LIMPET_PIDS", "99", 1);
    assert_int_equal(
        load(&options, "timeout = 5\npids = 50\ncpus = 2.5\nmemory = 512m\n", arguments, 2, &problem), 0);
    unsetenv("LIMPET_TIMEOUT");
    unsetenv("LIMPET_PIDS");
    assert_true(options.timeout == 7); /* the command line over the environment over the file */
    assert_int_equal(options.pids, 99);
    assert_true(options.cpus == 2.5);
    assert_int_equal(options.memory, 512u << 20);
    assert_string_equal(options.oci_runtime, "runc"); /* a default */
    assert_string_equal(options.engine, "");
    assert_string_equal(options.checkpoint, "auto");
    options_deinit(&options);
}

/* Also what is empty, or has no short form, whatever the environment says besides. */
TEST(test_a_helper_has_the_same)
{
    const char *const arguments[] = {"--group=", "--cpus=0.3333333333333333", "--memory=1g", "--core=off"};
    static char **list, **again; /* they live as long as the process */
    Options options = {0}, inherited = {0};
    Problem problem = PROBLEM_NULL;

    setenv("LIMPET_PIDS", "99", 1);
    assert_int_equal(load(&options, "", arguments, ARRAY_SIZE(arguments), &problem), 0);
    setenv("LIMPET_PIDS", "98", 1);
    list = options_environment(&options);
    assert_non_null(list);
    char **own = environ;
    environ = list;
    assert_int_equal(options_inherit(&inherited, &problem), 0);
    environ = own;
    again = options_environment(&inherited);
    for (size_t i = 0; list[i]; i++)
        assert_string_equal(again[i], list[i]);
    assert_string_equal(inherited.group, "");
    assert_int_equal(inherited.pids, 99);
    assert_true(inherited.cpus == options.cpus && options.cpus < 0.4);
    unsetenv("LIMPET_PIDS");
    options_deinit(&options);
    options_deinit(&inherited);
}

TEST(test_refusals)
{
    static const struct {
        const char *config, *argument, *words;
    } cases[] = {
        {"tiemout = 5\n", NULL, "tiemout"},
        {"timeout = soon\n", NULL, "timeout cannot be 'soon'"},
        {"timeout\n", NULL, "line 1"},
        {"", "--memory=-1", "memory"},
        {"checkpoint = sometimes\n", NULL, "it takes auto, always or off"},
        {"checkpoint = aut\n", NULL, "checkpoint cannot be 'aut'"},
        {"", "--pids=many", "pids"},
        {"", "--no-such", "--no-such"},
        {"", "--memory", "--memory needs a value: SIZE"},
        {"", "--check=yes", "--check takes no value"},
        {"", "stray", "stray"},
        {"timeout = inf\n", NULL, "timeout"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        Options options = {0};
        Problem problem = PROBLEM_NULL;
        assert_true(load(&options, cases[i].config, &cases[i].argument, cases[i].argument != NULL, &problem) <
                    0);
        assert_int_equal(problem.code, ERR_BAD_REQUEST);
        assert_non_null(strstr(problem.text, cases[i].words));
        options_deinit(&options);
    }
}

/* --help and the man page come from the table: every option is in both. */
TEST(test_help_is_complete)
{
    static const char *const names[] = {
#define OPTION(name, ...) #name,
#include "host/config/options.def"
#undef OPTION
    };
    char *help = NULL, *man = NULL;
    size_t help_size, man_size;
    FILE *help_file = open_memstream(&help, &help_size), *man_file = open_memstream(&man, &man_size);

    options_print_help(help_file);
    options_print_man(man_file);
    fclose(help_file);
    fclose(man_file);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char flag[64] = "--";
        for (size_t c = 0; c <= strlen(names[i]); c++)
            flag[2 + c] = names[i][c] == '_' ? '-' : names[i][c];
        assert_non_null(strstr(help, flag));
        assert_non_null(strstr(man, names[i]));
    }
    free(help);
    free(man);
}
