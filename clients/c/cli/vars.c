/* limpet vars */
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"

typedef struct VarsValues {
    const char *session;
    bool json;
} VarsValues;

static const Option vars_options[] = {
    OPTION_ROW('s', "session", OPTION_TEXT, VarsValues, session, "SESSION",
               "session; the same as the operand", .completes = COMPLETE_SESSION),
    OPTION_ROW(0, "json", OPTION_FLAG, VarsValues, json, NULL, "print the variables as JSON"),
};

static int ask_which(const LimpetSessions *list)
{
    fprintf(stderr, "limpet: %s\n",
            list->n_sessions ? "which session? Open sessions:" : "no session is open");
    for (size_t i = 0; i < list->n_sessions; i++)
        fprintf(stderr, "  %s\n", list->sessions[i].session);
    return EXIT_USAGE;
}

/* The only session there is. */
static int find_session(LimpetClient *client, LimpetSessions **list, const char **ret)
{
    if (limpet_sessions(client, list))
        return cli_fail(client);
    if ((*list)->n_sessions != 1)
        return ask_which(*list);
    *ret = (*list)->sessions[0].session;
    return 0;
}

static int run(const void *values, char **operands, int n)
{
    const VarsValues *given = values;
    const char *session = n > 0 ? operands[0] : given->session;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;
    _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;
    int status = 0;

    if (n > 0 && given->session) {
        fprintf(stderr, "limpet: name the session once\n");
        return EXIT_USAGE;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (!session)
        status = find_session(client, &list, &session);
    if (status)
        return status;
    if (limpet_namespace(client, session, &names))
        return cli_fail(client);
    return given->json ? cli_print_json(limpet_namespace_json(names)) : show_variables(names);
}

const Command command_vars = {
    .name = "vars",
    .alias = "namespace",
    .usage = "[OPTIONS] [SESSION]",
    .summary = "Lists the variables of a session without running any of its code",
    .details = "\nNames that begin with an underscore are not listed. SESSION may be omitted if only one "
               "session is open.\n"
               "'limpet namespace' is the same command.",
    .options = {vars_options, ARRAY_SIZE(vars_options)},
    .operands_max = 1,
    .operands = {COMPLETE_SESSION},
    .values_size = sizeof(VarsValues),
    .run = run,
};
