/* limpet kill */
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "clients/c/cli/processes.h"

typedef struct KillValues {
    const char *signal;
    bool alone;
} KillValues;

static const Option kill_options[] = {
    OPTION_ROW('s', "signal", OPTION_TEXT, KillValues, signal, "SIGNAL", "its name, as KILL, or its number",
               .value = "TERM", .completes = COMPLETE_NOTHING),
    OPTION_ROW(0, "alone", OPTION_FLAG, KillValues, alone, NULL,
               "signal only this process, not those that it started"),
};

/* 0 where there is none of that name. */
static int signal_of(const char *name)
{
    const char *bare = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
    char *end;
    long number = strtol(name, &end, 10);

    if (*name && !*end)
        return number > 0 && number <= SIGRTMAX ? (int)number : 0;
    for (int i = 1; i < SIGRTMIN; i++)
        if (sigabbrev_np(i) && strcasecmp(sigabbrev_np(i), bare) == 0)
            return i;
    return 0;
}

static int run(const void *values, char **operands, int n)
{
    const KillValues *given = values;
    int number = given->signal ? signal_of(given->signal) : SIGTERM;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    char process[PROCESS_NAME_SIZE];
    int r;

    if (number == 0) {
        fprintf(stderr, "limpet: there is no signal '%s'; `kill -l` lists them\n", given->signal);
        return EXIT_USAGE;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    r = process_find(client, operands[0], operands[1], process, NULL);
    if (r)
        return r;
    return limpet_process_signal(client, operands[0], process, number, given->alone) ? cli_fail(client) : 0;
}

const Command command_kill = {
    .name = "kill",
    .usage = "[OPTIONS] SESSION PROCESS",
    .summary = "Sends a signal to a process of a session",
    .details = "\n"
               "PROCESS is an id or its beginning, a name, or a number, as `limpet ps` shows them. The "
               "signal goes to\n"
               "its process group.",
    .options = {kill_options, ARRAY_SIZE(kill_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(KillValues),
    .run = run,
};
