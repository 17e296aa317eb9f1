/* From the interrupt of a running call until the reply to that call. One client runs the loop; once its first
 * output has come, another one interrupts it from a second thread. Argument: the session's name. */
#include <pthread.h>
#include <semaphore.h>

#include "clients/c/limpet.h"
#include "tests/bench/bench.h"

static const char loop[] = "print('running', flush=True)\nwhile True: pass";

typedef struct Context {
    LimpetClient *runner, *interrupter;
    const char *session;
    sem_t running, interrupted;
    bool seen;      /* the first output of this round */
    uint64_t begin; /* when the interrupt was sent; published by `interrupted` */
    bool done;      /* no more rounds; published by `running` */
} Context;

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    Context *c = context;

    if (!c->seen)
        sem_post(&c->running);
    c->seen = true;
}

static void *interrupt_each(void *context)
{
    Context *c = context;

    for (;;) {
        sem_wait(&c->running);
        if (c->done)
            return NULL;
        c->begin = clock_now();
        limpet_interrupt(c->interrupter, c->session, NULL);
        sem_post(&c->interrupted);
    }
}

static int interrupt(void *context, uint64_t *begin)
{
    Context *c = context;
    LimpetRun run = {.session = c->session, .code = loop, .on_output = on_output, .context = c};
    LimpetResult *result = NULL;
    int bad;

    c->seen = false;
    bad = limpet_run(c->runner, &run, &result) || result->status != LIMPET_INTERRUPTED;
    limpet_result_free(result);
    if (bad)
        return 1;
    sem_wait(&c->interrupted);
    *begin = c->begin;
    return 0;
}

static int serve(Context *c)
{
    pthread_t thread;
    int status;

    if (limpet_connect(c->runner, NULL) || limpet_connect(c->interrupter, NULL) ||
        pthread_create(&thread, NULL, interrupt_each, c))
        return 1;
    status = bench_serve(interrupt, c);
    c->done = true;
    sem_post(&c->running);
    pthread_join(thread, NULL);
    return status;
}

int main(int argc, char **argv)
{
    Context c = {.runner = limpet_new(), .interrupter = limpet_new()};
    int status;

    if (argc != 2 || !c.runner || !c.interrupter || sem_init(&c.running, 0, 0) ||
        sem_init(&c.interrupted, 0, 0))
        return 2;
    c.session = argv[1];
    status = serve(&c);
    if (status)
        fprintf(stderr, "a call was not interrupted; %s\n", limpet_error(c.runner)->message);
    limpet_free(c.runner);
    limpet_free(c.interrupter);
    return status;
}
