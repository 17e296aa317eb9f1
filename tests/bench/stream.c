/* Benchmark of the output of a cell, taken as it comes by the C client. Arguments: the session's name, the
 * code, and the bytes that must arrive. */
#include "clients/c/limpet.h"
#include "tests/bench/bench.h"

typedef struct Context {
    LimpetClient *client;
    LimpetRun run;
    uint64_t expected, arrived;
} Context;

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    ((Context *)context)->arrived += size;
}

static int stream(void *context, uint64_t *begin)
{
    Context *c = context;
    LimpetResult *result = NULL;
    int bad;

    c->arrived = 0;
    bad = limpet_run(c->client, &c->run, &result) || result->status != LIMPET_OK ||
          result->stdout_bytes != c->expected || c->arrived != c->expected;
    limpet_result_free(result);
    return bad;
}

int main(int argc, char **argv)
{
    Context c = {.client = limpet_new()};
    int status;

    if (argc != 4 || !c.client)
        return 2;
    c.run = (LimpetRun){.session = argv[1], .code = argv[2], .on_output = on_output, .context = &c};
    c.expected = strtoull(argv[3], NULL, 10);
    if (limpet_connect(c.client, NULL)) {
        fprintf(stderr, "%s\n", limpet_error(c.client)->message);
        return 1;
    }
    status = bench_serve(stream, &c);
    if (status)
        fprintf(stderr, "%llu bytes of %llu arrived; %s\n", (unsigned long long)c.arrived,
                (unsigned long long)c.expected, limpet_error(c.client)->message);
    limpet_free(c.client);
    return status;
}
