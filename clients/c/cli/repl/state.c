/* The prompt's commands about the state of the session. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/repl/commands.h"
#include "clients/c/cli/show.h"

static void vars(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;

    if (limpet_namespace(repl->client, repl->session, &names))
        repl_complain(repl);
    else
        show_variables(names);
}

static void checkpoint(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_taken_freep) LimpetTaken *taken = NULL;

    if (limpet_checkpoint(repl->client, repl->session, n > 0 ? arguments[0] : NULL, false, &taken))
        repl_complain(repl);
    else
        show_taken(taken);
}

static void checkpoints(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;

    if (limpet_checkpoints(repl->client, repl->session, &list))
        repl_complain(repl);
    else
        show_checkpoints(list);
}

/* The last one that was taken by hand: automatic ones follow each cell. */
static const char *last_by_hand(const LimpetCheckpoints *list)
{
    const char *id = NULL;

    for (size_t i = 0; i < list->n_checkpoints; i++)
        if (!list->checkpoints[i].automatic)
            id = list->checkpoints[i].id;
    return id;
}

static void rollback(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;
    _cleanup_(limpet_rollback_freep) LimpetRollback *back = NULL;
    const char *to = n > 0 ? arguments[0] : NULL;

    if (!to && limpet_checkpoints(repl->client, repl->session, &list)) {
        repl_complain(repl);
        return;
    }
    if (!to)
        to = last_by_hand(list);
    if (!to)
        fprintf(stderr,
                "limpet: there is no manual checkpoint; :checkpoint takes one, :checkpoints lists all\n");
    else if (limpet_rollback(repl->client, repl->session, to, &back))
        repl_complain(repl);
    else
        show_rollback(repl->session, back);
}

static void complete_checkpoint(Repl *repl, size_t place, const char *prefix, Words *ret)
{
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;

    if (place > 0 || limpet_checkpoints(repl->client, repl->session, &list))
        return;
    for (size_t i = 0; i < list->n_checkpoints; i++)
        words_add(ret, list->checkpoints[i].name ? list->checkpoints[i].name : list->checkpoints[i].id,
                  prefix);
}

static void move_to(Repl *repl, const char *session, const char *instance)
{
    char name[sizeof(repl->session)];

    snprintf(name, sizeof(name), "%s", session);
    snprintf(repl->session, sizeof(repl->session), "%s", name);
    snprintf(repl->instance, sizeof(repl->instance), "%s", instance);
    printf("cells run in %s\n", repl->session);
}

/* A branch that is open already is gone on with. */
static void branch(Repl *repl, char **arguments, size_t n)
{
    char name[2 * sizeof(repl->session)];
    LimpetOpened opened;

    if (n == 0) {
        move_to(repl, repl->origin, "");
        return;
    }
    if (!limpet_branch(repl->client, repl->session, arguments[0], NULL, &opened)) {
        move_to(repl, opened.session, opened.instance);
    } else if (limpet_error(repl->client)->number == LIMPET_BRANCH_EXISTS) {
        snprintf(name, sizeof(name), "%s/%s", repl->session, arguments[0]);
        move_to(repl, name, "");
    } else {
        repl_complain(repl);
    }
}

static void commit(Repl *repl, char **arguments, size_t n)
{
    char parent[sizeof(repl->session)];
    char *slash;

    snprintf(parent, sizeof(parent), "%s", repl->session);
    slash = strrchr(parent, '/');
    if (!slash) {
        fprintf(stderr, "limpet: the prompt is not in a branch; ':branch NAME' opens one\n");
        return;
    }
    *slash = 0;
    if (limpet_commit(repl->client, parent, repl->session, NULL, NULL))
        repl_complain(repl);
    else
        move_to(repl, parent, "");
}

static void reset(Repl *repl, char **arguments, size_t n)
{
    uint64_t epoch;

    if (limpet_reset(repl->client, repl->session, &epoch))
        repl_complain(repl);
    else
        printf("new interpreter, epoch %" PRIu64 "; /session is kept\n", epoch);
}

const ReplCommand repl_vars = {
    .name = "vars",
    .usage = "",
    .help = "list the variables without running any code",
    .run = vars,
};
const ReplCommand repl_checkpoint = {
    .name = "checkpoint",
    .usage = "[NAME]",
    .help = "take a checkpoint of the variables",
    .max = 1,
    .run = checkpoint,
};
const ReplCommand repl_rollback = {
    .name = "rollback",
    .usage = "[ID|NAME]",
    .help = "restore a checkpoint; by default the last manual one",
    .max = 1,
    .run = rollback,
    .complete = complete_checkpoint,
};
const ReplCommand repl_checkpoints = {
    .name = "checkpoints",
    .usage = "",
    .help = "list the checkpoints",
    .run = checkpoints,
};
const ReplCommand repl_branch = {
    .name = "branch",
    .usage = "[NAME]",
    .help = "switch to a branch with its own variables; without NAME, back to the session",
    .max = 1,
    .run = branch,
};
const ReplCommand repl_commit = {
    .name = "commit",
    .usage = "",
    .help = "make this branch the state of the session, and return to the session",
    .run = commit,
};
const ReplCommand repl_reset = {
    .name = "reset",
    .usage = "",
    .help = "start a new interpreter; files are kept",
    .run = reset,
};
