/* The table of the commands, limpet help and limpet version. */
#include <string.h>

#include "clients/c/cli/cli.h"

/* clang-format off */
const Command *const commands[] = {
    &command_run,
    &command_exec,
    &command_start,
    &command_ps,
    &command_attach,
    &command_kill,
    &command_shell,
    &command_forward,
    &command_repl,
    &command_open,
    &command_ls,
    &command_vars,
    &command_close,
    &command_reset,
    &command_sleep,
    &command_interrupt,
    &command_put,
    &command_get,
    &command_artifact,
    &command_files,
    &command_save,
    &command_show,
    &command_export,
    &command_checkpoint,
    &command_checkpoints,
    &command_rollback,
    &command_drop,
    &command_branch,
    &command_fork,
    &command_commit,
    &command_context,
    &command_install,
    &command_network,
    &command_template,
    &command_logs,
    &command_shutdown,
    &command_up,
    &command_down,
    &command_doctor,
    &command_image,
    &command_jupyter,
    &command_kubernetes,
    &command_mcp,
    &command_serve,
    &command_key,
    &command_keygen,
    &command_dial_stdio,
    &command_completion,
    &command_version,
    &command_help,
    NULL,
};
/* clang-format on */

const Command *command_find(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0 ||
            (commands[i]->alias && strcmp(commands[i]->alias, name) == 0))
            return commands[i];
    return NULL;
}

/* ---- limpet help ---- */

typedef struct HelpValues {
    bool man;
} HelpValues;

static const Option help_options[] = {
    OPTION_ROW(0, "man", OPTION_FLAG, HelpValues, man, NULL, "print everything as the source of a man page"),
};

static const char exit_statuses[] =
    "0 success\n"
    "1 the code raised a Python error\n"
    "2 the command line is wrong\n"
    "124 the code reached its time limit\n"
    "125 Limpet failed; the message begins with the name of the error\n"
    "130 the code was interrupted\n"
    "137 the interpreter was lost: out of memory, killed, crashed, or ended by the code itself\n";

/* Help of the option that every command has. */
static const char help_usage[] = "-h, --help", help_meaning[] = "show this help";

static const char *const environment[][2] = {
    {"LIMPET_SOCKET",
     "path of the controller's socket, or the address of one on another machine, as for --connect"},
    {"LIMPET_KEY", "for one on another machine: the file that 'limpet keygen' made"},
    {"LIMPET_SERVER_KEY", "likewise: the public key of the controller"},
    {"LIMPET_ARTIFACTS",
     "likewise: directory that artifacts are copied to (default limpet-artifacts); 0: none"},
    {"LIMPET_AUTOSTART", "0: never start a controller"},
    {"LIMPETD", "path of the limpetd to start"},
    {"LIMPET_IMAGE_TOOL", "path of the program behind 'limpet image'"},
    {"NO_COLOR", "if not empty, print tracebacks without colours"},
    {"EDITRC", "file with key bindings for 'limpet repl', see editrc(5) (default ~/.editrc)"},
};

static void print_option(void *out, const char *usage, const char *help)
{
    fprintf(out, "  %-26s  %s\n", usage, help);
}

void command_help_print(FILE *file, const Command *command)
{
    fprintf(file, "Usage: limpet %s%s%s\n\n%s.\n", command->name, *command->usage ? " " : "", command->usage,
            command->summary);
    if (command->details)
        fprintf(file, "%s\n", command->details);
    if (command->verbatim)
        return;
    fprintf(file, "\nOptions:\n");
    option_table_describe(&command->options, print_option, file);
    print_option(file, help_usage, help_meaning);
}

static void print_overview(void)
{
    printf("limpet: Python in a container that stays alive between calls\n\n"
           "  limpet run -c 'print(6 * 7)'      in a clean container\n"
           "  limpet run -s a -c 'x = 41'       in the session 'a', opened if it does not exist\n"
           "  limpet run -s a -c 'print(x + 1)'\n"
           "  limpet repl -s a                  a Python prompt on the session\n\nCommands:\n");
    for (size_t i = 0; commands[i]; i++)
        printf("  %-11s  %s\n", commands[i]->name, commands[i]->summary);
    printf("\nOptions before the command, for a controller on another machine:\n"
           "  --connect ADDRESS           where it is (or LIMPET_SOCKET): ssh://[USER@]HOST[:PORT],\n"
           "                              docker://[CONTEXT], docker://tcp://HOST:PORT,\n"
           "                              kubernetes://[CONTEXT/]NAMESPACE, exec:COMMAND or tcp://HOST:PORT\n"
           "  --key FILE                  for tcp://: the keys that 'limpet keygen' made (or LIMPET_KEY)\n"
           "  --server-key KEY            for tcp://: its public key (or LIMPET_SERVER_KEY)\n"
           "\nRun 'limpet help COMMAND' for the options of a command.\n");
}

/* Plain text as roff: a backslash, a leading dot or quote and a minus sign mean something there. */
static void roff(const char *text)
{
    bool line_start = true;

    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        line_start = *text == '\n';
    }
}

static void roff_item(void *out, const char *usage, const char *help)
{
    fputs(".TP\n.B ", stdout);
    roff(usage + strspn(usage, " "));
    putchar('\n');
    roff(help);
    putchar('\n');
}

static void roff_command(const Command *command)
{
    fputs(".SS ", stdout);
    printf("limpet %s ", command->name);
    roff(command->usage);
    putchar('\n');
    roff(command->summary);
    fputs(".\n", stdout);
    if (command->details) {
        fputs(".PP", stdout);
        roff(command->details);
        putchar('\n');
    }
    if (command->verbatim)
        return;
    option_table_describe(&command->options, roff_item, NULL);
    roff_item(NULL, help_usage, help_meaning);
}

static void print_man(void)
{
    printf(".TH LIMPET 1 \"\" \"Limpet %s\"\n.SH NAME\n", LIMPET_VERSION);
    roff("limpet - Python in a container that stays alive between calls\n");
    fputs(".SH SYNOPSIS\n.B limpet\n.I COMMAND\n[OPTIONS] ...\n.SH COMMANDS\n", stdout);
    for (size_t i = 0; commands[i]; i++)
        roff_command(commands[i]);
    fputs(".SH EXIT STATUS\n.nf\n", stdout);
    roff(exit_statuses);
    fputs(".fi\n.SH ENVIRONMENT\n", stdout);
    for (size_t i = 0; i < ARRAY_SIZE(environment); i++)
        roff_item(NULL, environment[i][0], environment[i][1]);
    fputs(".SH SEE ALSO\n.BR limpetd (8)\n", stdout);
}

static int run_help(const void *values, char **operands, int n)
{
    const HelpValues *help = values;
    const Command *command = n > 0 ? command_find(operands[0]) : NULL;

    if (n > 0 && !command) {
        fprintf(stderr, "limpet: unknown command '%s'; 'limpet help' lists the commands\n", operands[0]);
        return EXIT_USAGE;
    }
    if (help->man)
        print_man();
    else if (command)
        command_help_print(stdout, command);
    else
        print_overview();
    return 0;
}

const Command command_help = {
    .name = "help",
    .usage = "[COMMAND]",
    .summary = "Shows help for a command",
    .options = {help_options, ARRAY_SIZE(help_options)},
    .operands = {COMPLETE_COMMAND},
    .operands_max = 1,
    .values_size = sizeof(HelpValues),
    .run = run_help,
};

/* ---- limpet version ---- */

static int run_version(const void *values, char **operands, int n)
{
    printf("limpet %s\n", LIMPET_VERSION);
    return 0;
}

const Command command_version = {
    .name = "version",
    .usage = "",
    .summary = "Shows the version",
    .run = run_version,
};
