/* limpet save */
#include "clients/c/cli/cli.h"

static void show(const LimpetSaved *saved, const char *session)
{
    size_t lost = 0;

    for (size_t i = 0; i < saved->n_variables; i++) {
        const LimpetSavedVariable *variable = &saved->variables[i];

        if (!variable->why)
            continue;
        lost++;
        fputs("limpet: not saved: ", stderr);
        cli_print_name(stderr, variable->name);
        fputs(": ", stderr);
        cli_print_name(stderr, variable->why);
        fputc('\n', stderr);
    }
    cli_print_notes("not saved", saved->skipped, saved->n_skipped);
    printf("saved %s: %zu variables, /session; %llu bytes\n", session, saved->n_variables - lost,
           (unsigned long long)saved->size);
}

static int run(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetSaved *saved = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_attach(client, operands[0], NULL) ||
        limpet_save(client, operands[0], operands[1], NULL, NULL, &saved))
        return cli_fail(client);
    show(saved, operands[0]);
    limpet_saved_free(saved);
    return 0;
}

const Command command_save = {
    .name = "save",
    .usage = "SESSION FILE",
    .summary = "Saves a session to a file: its variables, /session and its options",
    .details = "\nThe session does not change. Variables that cannot be saved are listed with the reason. "
               "The file is a\n"
               "tar; 'limpet open --restore FILE SESSION' makes a session of it, on another machine too.",
    .operands = {COMPLETE_SESSION, COMPLETE_FILE},
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
