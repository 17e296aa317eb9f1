/* The commands about checkpoints, branches and forks. */
#include <inttypes.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"
#include "proto/limits.h"

/* ---- limpet checkpoint ---- */

typedef struct CheckpointValues {
    const char *name;
    bool files, json;
} CheckpointValues;

static const Option checkpoint_options[] = {
    OPTION_ROW(0, "name", OPTION_TEXT, CheckpointValues, name, "NAME", "name of the checkpoint"),
    OPTION_ROW(0, "files", OPTION_FLAG, CheckpointValues, files, NULL, "also keep a copy of /session"),
    OPTION_ROW(0, "json", OPTION_FLAG, CheckpointValues, json, NULL, "print the checkpoint as JSON"),
};

static int run_checkpoint(LimpetClient *client, const void *values, char **operands, int n)
{
    const CheckpointValues *given = values;
    _cleanup_(limpet_taken_freep) LimpetTaken *taken = NULL;

    if (limpet_checkpoint(client, operands[0], given->name, given->files, &taken))
        return cli_fail(client);
    if (given->json)
        return cli_print_json(limpet_taken_json(taken));
    show_taken(taken);
    return 0;
}

const Command command_checkpoint = {
    .name = "checkpoint",
    .usage = "[OPTIONS] SESSION",
    .summary = "Takes a checkpoint of the variables of a session, for 'rollback'",
    .details =
        "\nThe checkpoint is kept until it is dropped, the session is closed, or its memory is needed for newer\n"
        "checkpoints.",
    .options = {checkpoint_options, ARRAY_SIZE(checkpoint_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(CheckpointValues),
    .run_connected = run_checkpoint,
};

/* ---- limpet checkpoints ---- */

static const Option checkpoints_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, JsonValues, json, NULL, "print the list as JSON"),
};

static int run_checkpoints(LimpetClient *client, const void *values, char **operands, int n)
{
    const JsonValues *given = values;
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;

    if (limpet_checkpoints(client, operands[0], &list))
        return cli_fail(client);
    return given->json ? cli_print_json(limpet_checkpoints_json(list)) : show_checkpoints(list);
}

const Command command_checkpoints = {
    .name = "checkpoints",
    .usage = "[OPTIONS] SESSION",
    .summary = "Lists the checkpoints of a session and its branches",
    .details = "\nA checkpoint is shown below the one that its state started from.",
    .options = {checkpoints_options, ARRAY_SIZE(checkpoints_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(JsonValues),
    .run_connected = run_checkpoints,
};

/* ---- limpet rollback ---- */

static const Option rollback_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, JsonValues, json, NULL, "print the result as JSON"),
};

static int run_rollback(LimpetClient *client, const void *values, char **operands, int n)
{
    const JsonValues *given = values;
    _cleanup_(limpet_rollback_freep) LimpetRollback *back = NULL;

    if (limpet_rollback(client, operands[0], operands[1], &back))
        return cli_fail(client);
    if (given->json)
        return cli_print_json(limpet_rollback_json(back));
    show_rollback(operands[0], back);
    return 0;
}

const Command command_rollback = {
    .name = "rollback",
    .usage = "[OPTIONS] SESSION CHECKPOINT",
    .summary = "Restores the variables of a session from a checkpoint",
    .details =
        "\nCHECKPOINT is the id or the name of a checkpoint of the session or of one of its branches. The checkpoint\n"
        "is kept. If it was taken with --files, /session is restored as well.",
    .options = {rollback_options, ARRAY_SIZE(rollback_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_CHECKPOINT},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(JsonValues),
    .run_connected = run_rollback,
};

/* ---- limpet drop ---- */

static int run_drop(LimpetClient *client, const void *values, char **operands, int n)
{
    int status = 0;

    for (int i = 1; i < n; i++)
        if (limpet_drop(client, operands[0], operands[i]))
            status = cli_fail(client);
    return status;
}

const Command command_drop = {
    .name = "drop",
    .usage = "SESSION CHECKPOINT...",
    .summary = "Removes checkpoints, with the memory and the files that they hold",
    .operands = {COMPLETE_SESSION, COMPLETE_CHECKPOINT},
    .operands_min = 2,
    .operands_max = -1,
    .run_connected = run_drop,
};

/* ---- limpet branch ---- */

typedef struct BranchValues {
    const char *at;
    bool json;
} BranchValues;

static const Option branch_options[] = {
    OPTION_ROW(0, "at", OPTION_TEXT, BranchValues, at, "CHECKPOINT",
               "start from this checkpoint (id or name) instead of the current variables",
               .completes = COMPLETE_CHECKPOINT),
    OPTION_ROW(0, "json", OPTION_FLAG, BranchValues, json, NULL, "print the branch as JSON"),
};

static int run_branch(LimpetClient *client, const void *values, char **operands, int n)
{
    const BranchValues *given = values;
    LimpetOpened opened;

    if (limpet_branch(client, operands[0], operands[1], given->at, &opened))
        return cli_fail(client);
    opened_print(&opened, given->json);
    return 0;
}

const Command command_branch = {
    .name = "branch",
    .usage = "[OPTIONS] SESSION NAME",
    .summary = "Opens the branch SESSION/NAME with the variables of SESSION",
    .details =
        "\nFrom then on the variables of the branch and of the session are separate; the container and the files\n"
        "are shared. 'commit' makes the branch the new state of the session, 'close' discards it.",
    .options = {branch_options, ARRAY_SIZE(branch_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(BranchValues),
    .run_connected = run_branch,
};

/* ---- limpet fork ---- */

static const Option fork_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, JsonValues, json, NULL, "print each session as a line of JSON"),
};

static int run_fork(LimpetClient *client, const void *values, char **operands, int n)
{
    const JsonValues *given = values;
    LimpetOpened opened[LIMIT_FORKS];
    size_t count = (size_t)n - 1;

    if (limpet_fork(client, operands[0], (const char *const *)operands + 1, count,
                    count <= LIMIT_FORKS ? opened : NULL))
        return cli_fail(client);
    for (size_t i = 0; i < MIN(count, LIMIT_FORKS); i++)
        opened_print(&opened[i], given->json);
    return 0;
}

const Command command_fork = {
    .name = "fork",
    .usage = "[OPTIONS] SESSION NAME...",
    .summary = "Makes sessions with copies of the variables and files of SESSION",
    .details =
        "\nEach has a container of its own, and the options of SESSION. 'branch' makes a lighter copy that shares\n"
        "the container and the files.",
    .options = {fork_options, ARRAY_SIZE(fork_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 2,
    .operands_max = -1,
    .values_size = sizeof(JsonValues),
    .run_connected = run_fork,
};

/* ---- limpet commit ---- */

static const Option commit_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, JsonValues, json, NULL, "print the result as JSON"),
};

static int run_commit(LimpetClient *client, const void *values, char **operands, int n)
{
    const JsonValues *given = values;
    uint64_t count, epoch;

    if (limpet_commit(client, operands[0], operands[1], &count, &epoch))
        return cli_fail(client);
    if (given->json)
        printf("{\"execution_count\": %" PRIu64 ", \"epoch\": %" PRIu64 "}\n", count, epoch);
    else
        printf("%s is as after call %" PRIu64 " of the branch; epoch %" PRIu64 "\n", operands[0], count,
               epoch);
    return 0;
}

const Command command_commit = {
    .name = "commit",
    .usage = "[OPTIONS] SESSION BRANCH",
    .summary = "Makes the state of a branch the state of its session, and ends the branch",
    .details = "\nBRANCH is SESSION/NAME or NAME.",
    .options = {commit_options, ARRAY_SIZE(commit_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_BRANCH},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(JsonValues),
    .run_connected = run_commit,
};
