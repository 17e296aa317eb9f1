/* limpet ls */
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/table.h"

typedef struct LsValues {
    bool all;
    bool json;
} LsValues;

static const Option ls_options[] = {
    OPTION_ROW('a', "all", OPTION_FLAG, LsValues, all, NULL, "list the sessions of all users (root only)"),
    OPTION_ROW(0, "json", OPTION_FLAG, LsValues, json, NULL, "print the controller and the sessions as JSON"),
};

/* The first is shown when those of all users are. */
static const Column columns[] = {
    {"USER", false}, {"SESSION", false}, {"ENGINE", false}, {"STATUS", false},
    {"RUNS", true},  {"EPOCH", true},    {"MEMORY", true},  {"IDLE", true},
};

static void add_user(Table *table, int64_t user)
{
    const struct passwd *entry = user < 0 ? NULL : getpwuid((uid_t)user);

    if (entry)
        table_add(table, "%s", entry->pw_name);
    else
        table_add(table, "%" PRId64, user);
}

static int print_table(const LimpetSessions *list, bool all)
{
    Table table = {.columns = columns + !all, .n_columns = ARRAY_SIZE(columns) - !all};
    int status;

    for (size_t i = 0; i < list->n_sessions; i++) {
        const LimpetSession *s = &list->sessions[i];
        char memory[24], idle[48];

        if (all)
            add_user(&table, s->user);
        table_add(&table, "%s", s->session);
        table_add(&table, "%s", s->engine);
        table_add(&table, "%s", s->status);
        table_add(&table, "%" PRIu64, s->execution_count);
        table_add(&table, "%" PRIu64, s->epoch);
        table_add(&table, "%s", cli_size(memory, sizeof(memory), s->memory));
        table_add(&table, "%s", cli_seconds(idle, sizeof(idle), s->idle));
    }
    status = table_print(&table);
    if (!status && list->spares > 0)
        printf("%" PRIu64 " spare container%s ready\n", list->spares, list->spares == 1 ? "" : "s");
    return status;
}

static int run(const void *values, char **operands, int n)
{
    const LsValues *ls = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (ls->all ? limpet_sessions_all(client, &list) : limpet_sessions(client, &list))
        return cli_fail(client);
    return ls->json ? cli_print_json(limpet_sessions_json(list)) : print_table(list, ls->all);
}

const Command command_ls = {
    .name = "ls",
    .usage = "[OPTIONS]",
    .summary = "Lists your sessions and their branches",
    .options = {ls_options, ARRAY_SIZE(ls_options)},
    .values_size = sizeof(LsValues),
    .run = run,
};
