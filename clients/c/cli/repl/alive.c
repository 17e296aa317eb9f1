#include "clients/c/cli/repl/alive.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/repl/hidden.h"
#include "proto/base/clock.h"

struct Alive {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopped;
    double interval; /* seconds */
    char session[136];
};

/* False when it is to stop. */
static bool wait_for_turn(Alive *alive)
{
    uint64_t at = clock_now() + clock_from_seconds(alive->interval);
    const struct timespec until = clock_timespec(at);
    bool stopped;
    int r = 0;

    pthread_mutex_lock(&alive->mutex);
    while (!alive->stopped && r == 0)
        r = pthread_cond_clockwait(&alive->changed, &alive->mutex, CLOCK_MONOTONIC, &until);
    stopped = alive->stopped;
    pthread_mutex_unlock(&alive->mutex);
    return !stopped;
}

/* Keeps the session alive by asking for its variables, which runs no code. */
static void *keep_alive(void *context)
{
    Alive *alive = context;

    while (wait_for_turn(alive)) {
        _cleanup_(limpet_freep) LimpetClient *client = limpet_new();
        _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;

        if (!client)
            continue;
        limpet_set_autostart(client, false);
        if (limpet_connect(client, NULL) == 0 && hidden_session_idle(client, alive->session))
            limpet_namespace(client, alive->session, &names);
    }
    return NULL;
}

/* Signals are for the other thread. */
static int start_thread(Alive *alive)
{
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&alive->thread, NULL, keep_alive, alive);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

Alive *alive_start(const char *session, double ttl)
{
    Alive *alive = ttl == LIMPET_FOREVER ? NULL : calloc(1, sizeof(*alive));

    if (!alive)
        return NULL;
    pthread_mutex_init(&alive->mutex, NULL);
    pthread_cond_init(&alive->changed, NULL);
    alive->interval = ttl / 3;
    snprintf(alive->session, sizeof(alive->session), "%s", session);
    if (start_thread(alive) == 0)
        return alive;
    free(alive);
    return NULL;
}

/* A request that is under way is waited for; none waits for a call of somebody else. */
void alive_stop(Alive *alive)
{
    if (!alive)
        return;
    pthread_mutex_lock(&alive->mutex);
    alive->stopped = true;
    pthread_cond_signal(&alive->changed);
    pthread_mutex_unlock(&alive->mutex);
    pthread_join(alive->thread, NULL);
    free(alive);
}
