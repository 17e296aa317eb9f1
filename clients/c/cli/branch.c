/* limpet branch */
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/json.h"

typedef struct BranchValues {
    const char *at;
    bool json;
} BranchValues;

static const Option branch_options[] = {
    OPTION_ROW(0, "at", OPTION_TEXT, BranchValues, at, "CHECKPOINT",
               "with the variables of this checkpoint, an id or a name, instead of those of now",
               .completes = COMPLETE_CHECKPOINT),
    OPTION_ROW(0, "json", OPTION_FLAG, BranchValues, json, NULL, "what was opened as one JSON object"),
};

static void print_text(const char *key, const char *text)
{
    const msgpack_object object = {.type = MSGPACK_OBJECT_STR,
                                   .via.str = {.ptr = text, .size = (uint32_t)strlen(text)}};
    _cleanup_(buf_deinit) Buf json = BUF_NULL;

    if (json_write(&json, &object, JSON_PATH) == 0)
        printf("\"%s\": %.*s, ", key, (int)json.size, (const char *)buf_head(&json));
}

static void print_json(const LimpetOpened *opened)
{
    putchar('{');
    print_text("session", opened->session);
    print_text("instance", opened->instance);
    print_text("engine", opened->engine);
    printf("\"created\": %s}\n", opened->created ? "true" : "false");
}

static int run(const void *values, char **operands, int n)
{
    const BranchValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetOpened opened;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_branch(client, operands[0], operands[1], given->at, &opened))
        return cli_fail(client);
    if (given->json)
        print_json(&opened);
    else
        printf("opened %s (%s)\n", opened.session, opened.engine);
    return 0;
}

const Command command_branch = {
    .name = "branch",
    .usage = "[OPTIONS] SESSION NAME",
    .summary = "Opens the session SESSION/NAME with the variables of SESSION",
    .details =
        "\nFrom then on each has variables of its own; the container and the files are the same. 'commit' "
        "makes\n"
        "the branch the session, 'close' ends it.",
    .options = {branch_options, ARRAY_SIZE(branch_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(BranchValues),
    .run = run,
};
