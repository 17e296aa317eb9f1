/* limpet ls */
#include <inttypes.h>

#include "clients/c/cli/cli.h"

typedef struct LsValues {
    bool json;
} LsValues;

static const Option ls_options[] = {
    {0, "json", OPTION_FLAG, offsetof(LsValues, json), NULL, "controller and sessions as one JSON object"},
};

static const char *format_memory(char *text, size_t size, uint64_t bytes)
{
    static const char units[] = "KMGT";
    double value = (double)bytes / 1024;
    size_t unit = 0;

    while (value >= 1023.95 && unit + 1 < sizeof(units) - 1) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, "%.1f%c", value, units[unit]);
    return text;
}

static const char *format_seconds(char *text, size_t size, double seconds)
{
    uint64_t s = seconds > 0 ? (uint64_t)seconds : 0;

    if (s < 60)
        snprintf(text, size, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(text, size, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else
        snprintf(text, size, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
    return text;
}

static void print_table(const LimpetSessions *list)
{
    printf("%-24s %-7s %-9s %6s %6s %8s %8s\n", "SESSION", "ENGINE", "STATUS", "RUNS", "EPOCH", "MEMORY",
           "IDLE");
    for (size_t i = 0; i < list->n_sessions; i++) {
        const LimpetSession *s = &list->sessions[i];
        char memory[24], idle[48];

        printf("%-24s %-7s %-9s %6" PRIu64 " %6" PRIu64 " %8s %8s\n", s->session, s->engine, s->status,
               s->execution_count, s->epoch, format_memory(memory, sizeof(memory), s->memory),
               format_seconds(idle, sizeof(idle), s->idle));
    }
}

static int print_json(const LimpetSessions *list)
{
    _cleanup_(freep) char *json = limpet_sessions_json(list);

    if (!json) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    puts(json);
    return 0;
}

static int run(const void *values, char **operands, int n)
{
    const LsValues *ls = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_sessions(client, &list))
        return cli_fail(client);
    if (ls->json)
        return print_json(list);
    print_table(list);
    return 0;
}

const Command command_ls = {
    .name = "ls",
    .usage = "[OPTIONS]",
    .summary = "Lists the sessions",
    .options = ls_options,
    .n_options = ARRAY_SIZE(ls_options),
    .values_size = sizeof(LsValues),
    .run = run,
};
