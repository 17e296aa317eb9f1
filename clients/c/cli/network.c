/* limpet network */
#include "clients/c/cli/bindings.h"

typedef struct NetworkValues {
    const char *const *allow, *const *bindings, *const *headers;
    bool none, unbind, json;
} NetworkValues;

static const Option network_options[] = {
    OPTION_ROW(0, "allow", OPTION_LIST, NetworkValues, allow, "HOST:PORT",
               "destination that the code may connect to from now on; may be repeated",
               .completes = COMPLETE_NOTHING),
    OPTION_ROW(0, "none", OPTION_FLAG, NetworkValues, none, NULL, "allow nothing but bindings from now on"),
    BINDING_ROWS(NetworkValues),
    OPTION_ROW(0, "unbind", OPTION_FLAG, NetworkValues, unbind, NULL, "remove all bindings"),
    OPTION_ROW(0, "json", OPTION_FLAG, NetworkValues, json, NULL, "print it as JSON"),
};

static void print(const LimpetNetwork *network)
{
    for (size_t i = 0; i < network->n_allow; i++)
        printf("%s\n", network->allow[i]);
    for (size_t i = 0; i < network->n_bindings; i++)
        printf("http://%s.limpet/ -> %s\n", network->bindings[i].name, network->bindings[i].url);
    if (network->n_allow + network->n_bindings == 0)
        puts("none");
}

static int run(const void *values, char **operands, int n)
{
    static const char *const nothing[] = {NULL};
    static const LimpetBinding unbound[] = {{0}};
    const NetworkValues *given = values;
    _cleanup_(bindings_freep) LimpetBinding *bindings = NULL;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(limpet_network_freep) LimpetNetwork *network = NULL;
    int r = bindings_read(given->bindings, given->headers, &bindings);

    if (r)
        return r;
    if ((given->none && given->allow) || (given->unbind && bindings)) {
        fputs("limpet: network: --none goes without --allow, and --unbind without --binding\n", stderr);
        return EXIT_USAGE;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (limpet_set_network(client, operands[0], given->none ? nothing : given->allow,
                           given->unbind ? unbound : bindings, &network))
        return cli_fail(client);
    if (given->json)
        return cli_print_json(limpet_network_json(network));
    print(network);
    return 0;
}

const Command command_network = {
    .name = "network",
    .usage = "[OPTIONS] SESSION",
    .summary = "Shows or changes what a session may reach of the network",
    .details =
        "\n"
        "A destination is HOST:PORT, *.DOMAIN:PORT, or an address and a port; the default port is 443.\n"
        "Connections to destinations that are no longer allowed are closed at once. Without options, it "
        "shows\n"
        "what is allowed.",
    .options = {network_options, ARRAY_SIZE(network_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(NetworkValues),
    .run = run,
};
