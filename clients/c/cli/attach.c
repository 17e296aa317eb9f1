/* limpet attach */
#include "clients/c/cli/attached.h"

typedef struct AttachValues {
    bool input;
} AttachValues;

static const Option attach_options[] = {
    OPTION_ROW('i', "input", OPTION_FLAG, AttachValues, input, NULL,
               "send it standard input, up to its end; a process with a terminal gets your keys anyway"),
};

static int run(const void *values, char **operands, int n)
{
    const AttachValues *given = values;
    char process[PROCESS_NAME_SIZE];
    bool has_terminal;
    LimpetTerminalSize size;
    int r;

    {
        _cleanup_(limpet_freep) LimpetClient *client = cli_connect();

        if (!client)
            return EXIT_SANDBOX;
        r = process_find(client, operands[0], operands[1], process, &has_terminal);
    }
    if (r)
        return r;
    return attach_and_tell(&(AttachTarget){
        .session = operands[0],
        .process = process,
        .terminal = has_terminal && process_own_terminal(&size),
        .input = given->input,
    });
}

const Command command_attach = {
    .name = "attach",
    .usage = "[OPTIONS] SESSION PROCESS",
    .summary = "Shows what a process in the background writes, and lets you type to it",
    .details = "\n"
               "PROCESS is an id or its beginning, a name, or a number, as `limpet ps` shows them. Recent "
               "output comes\n"
               "first. If both the process and you have a terminal, the process gets your keys, Ctrl-C "
               "included, and\n"
               "Ctrl-] detaches; otherwise Ctrl-C detaches. Detaching does not end the process.\n"
               "\n"
               "The exit status is that of the process when it ends, as for `limpet exec`.",
    .options = {attach_options, ARRAY_SIZE(attach_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(AttachValues),
    .run = run,
};
