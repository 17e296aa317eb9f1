/* Benchmark of a call through the C client on a live session. Arguments: the session's name and the code. */
#include "clients/c/limpet.h"
#include "tests/bench/bench.h"

typedef struct Context {
    LimpetClient *client;
    LimpetRun run;
} Context;

static int call(void *context, uint64_t *begin)
{
    Context *c = context;
    LimpetResult *result = NULL;
    int bad = limpet_run(c->client, &c->run, &result) || result->status != LIMPET_OK;

    limpet_result_free(result);
    return bad;
}

int main(int argc, char **argv)
{
    Context c = {.client = limpet_new()};
    int status;

    if (argc != 3 || !c.client)
        return 2;
    c.run = (LimpetRun){.session = argv[1], .code = argv[2]};
    if (limpet_connect(c.client, NULL) || limpet_open(c.client, argv[1], NULL, NULL)) {
        fprintf(stderr, "%s\n", limpet_error(c.client)->message);
        return 1;
    }
    status = bench_serve(call, &c);
    if (status)
        fprintf(stderr, "%s\n", limpet_error(c.client)->message);
    limpet_free(c.client);
    return status;
}
