/* limpet: live Python sessions in containers, from the command line. */
#include <errno.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/terminal.h"

static int wrong_operands(const Command *command, int n)
{
    fprintf(stderr, "limpet: %s operands\nUsage: limpet %s %s\n",
            n < command->operands_min ? "missing" : "too many", command->name, command->usage);
    return EXIT_USAGE;
}

static int command_run_with(const Command *command, void *values, int argc, char **argv)
{
    Problem problem = PROBLEM_NULL;
    int first = 1;

    if (!command->verbatim)
        first = option_table_arguments(&command->options, values, argc, argv, &problem);
    if (first == OPTION_HELP) {
        command_help_print(stdout, command);
        return 0;
    }
    if (first < 0) {
        fprintf(stderr, "limpet: %s\nTry 'limpet %s --help'.\n", problem.text, command->name);
        return EXIT_USAGE;
    }
    if (argc - first < command->operands_min ||
        (command->operands_max >= 0 && argc - first > command->operands_max))
        return wrong_operands(command, argc - first);
    if (command->run)
        return command->run(values, argv + first, argc - first);
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    return client ? command->run_connected(client, values, argv + first, argc - first) : EXIT_SANDBOX;
}

static int start_command(const Command *command, int argc, char **argv)
{
    void *values = calloc(1, command->values_size + 1);
    int status;

    if (!values) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    status = command_run_with(command, values, argc, argv);
    option_table_clear(&command->options, values);
    free(values);
    return status;
}

/* Takes the options before the command, which say where the controller is. Returns the number of arguments
 * that they are, or -EXIT_USAGE. */
static int take_place(int argc, char **argv)
{
    static const char *const options[][2] = {
        {"--connect", "LIMPET_SOCKET"}, {"--key", "LIMPET_KEY"}, {"--server-key", "LIMPET_SERVER_KEY"}};
    int at = 1;

    for (size_t i = 0; at < argc && i < ARRAY_SIZE(options);) {
        const char *name = options[i][0], *value = argv[at] + strlen(name);

        if (strncmp(argv[at], name, strlen(name)) != 0 || (*value && *value != '=')) {
            i++;
            continue;
        }
        if (!*value && !argv[++at]) {
            fprintf(stderr, "limpet: the option %s needs an argument\n", name);
            return -EXIT_USAGE;
        }
        setenv(options[i][1], *value ? value + 1 : argv[at], 1);
        at++;
        i = 0;
    }
    return at - 1;
}

static int start(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    const Command *command;

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    command = command_find(name);
    if (!command) {
        fprintf(stderr, "limpet: unknown command '%s'; 'limpet help' lists the commands\n", name);
        return EXIT_USAGE;
    }
    /* The command's name takes the place of the program's. */
    if (argc > 1)
        argv++, argc--;
    argv[0] = (char *)"limpet";
    return start_command(command, argc, argv);
}

int main(int argc, char **argv)
{
    char *none[] = {(char *)"limpet", NULL};
    int placed = take_place(argc, argv);
    int status = placed < 0 ? -placed : start(argc - placed, argc > 0 ? argv + placed : none);

    output_end();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "limpet: standard output: %s\n", strerror(errno));
        return EXIT_SANDBOX;
    }
    return status;
}
