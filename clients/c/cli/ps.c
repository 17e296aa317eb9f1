/* limpet ps */
#include <inttypes.h>
#include <math.h>

#include "clients/c/cli/processes.h"
#include "clients/c/cli/table.h"

typedef struct PsValues {
    bool json;
} PsValues;

static const Option ps_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, PsValues, json, NULL, "print the processes as JSON"),
};

static const Column columns[] = {
    {"ID", false},     {"NAME", false}, {"KIND", false},    {"PID", true},
    {"STATUS", false}, {"AGE", true},   {"COMMAND", false},
};

static void add_status(Table *table, const LimpetProcess *process)
{
    if (process->has_exit_code)
        table_add(table, "exit %d", process->exit_code);
    else if (process->has_signal)
        table_add(table, "signal %d", process->signal);
    else
        table_add(table, "running");
}

static void add(Table *table, const LimpetProcess *process)
{
    char age[48] = "";

    table_add(table, "%.8s", process->run_id ? process->run_id : "");
    table_add(table, "%s", process->name ? process->name : "");
    table_add(table, "%s", process->kind);
    table_add(table, "%" PRIu64, process->pid);
    add_status(table, process);
    table_add(table, "%s", isnan(process->age) ? "" : cli_seconds(age, sizeof(age), process->age));
    table_add(table, "%s", process->command);
}

static int print_table(const LimpetProcesses *list)
{
    Table table = {.columns = columns, .n_columns = ARRAY_SIZE(columns)};

    for (size_t i = 0; i < list->n_processes; i++)
        add(&table, &list->processes[i]);
    return table_print(&table);
}

static int run(const void *values, char **operands, int n)
{
    const PsValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_processes_freep) LimpetProcesses *list = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_processes(client, operands[0], &list))
        return cli_fail(client);
    return given->json ? cli_print_json(limpet_processes_json(list)) : print_table(list);
}

const Command command_ps = {
    .name = "ps",
    .usage = "[OPTIONS] SESSION",
    .summary = "Lists the commands and processes of a session",
    .details = "\n"
               "A `process` was started with `limpet start` or `limpet shell`, and is listed for a while "
               "after its end.\n"
               "A `command` runs under `limpet exec`. An `orphan` was left behind by one of these.",
    .options = {ps_options, ARRAY_SIZE(ps_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(PsValues),
    .run = run,
};
