#include "guest/interpreter/flusher.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "proto/base/base.h"
#include "proto/base/clock.h"

#define STACK_SIZE (128u << 10)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    void (*flush)(void);
    atomic_bool armed; /* a flush is coming */
    bool running, stop;
} flusher = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct timespec flush_time(void)
{
    return clock_timespec(clock_now() + FLUSH_DELAY_MS * NSEC_PER_MSEC);
}

/* With the lock: until a flush is due (true) or the thread is to end. */
static bool wait_due(void)
{
    while (!flusher.armed && !flusher.stop)
        pthread_cond_wait(&flusher.changed, &flusher.lock);

    struct timespec due = flush_time();
    while (!flusher.stop && pthread_cond_timedwait(&flusher.changed, &flusher.lock, &due) != ETIMEDOUT)
        ;
    return !flusher.stop;
}

static void *flush_when_due(void *unused)
{
    pthread_mutex_lock(&flusher.lock);
    while (wait_due()) {
        flusher.armed = false; /* before the flush: what is appended from here on arms again */
        pthread_mutex_unlock(&flusher.lock);
        flusher.flush();
        pthread_mutex_lock(&flusher.lock);
    }
    pthread_mutex_unlock(&flusher.lock);
    return unused;
}

/* With the lock. Without memory or processes for a thread, output comes at the end of the cell. */
static void start_thread(void)
{
    pthread_condattr_t clock;
    pthread_attr_t attributes;
    sigset_t all, old;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&flusher.changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    flusher.stop = false;
    flusher.running = pthread_create(&flusher.thread, &attributes, flush_when_due, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

void flusher_arm(void (*flush)(void))
{
    if (flusher.armed)
        return;
    pthread_mutex_lock(&flusher.lock);
    flusher.flush = flush;
    if (!flusher.running)
        start_thread();
    flusher.armed = flusher.running;
    if (flusher.running)
        pthread_cond_signal(&flusher.changed);
    pthread_mutex_unlock(&flusher.lock);
}

void flusher_stop(void)
{
    pthread_mutex_lock(&flusher.lock);
    bool running = flusher.running;
    flusher.stop = true;
    if (running)
        pthread_cond_signal(&flusher.changed);
    pthread_mutex_unlock(&flusher.lock);
    if (running)
        pthread_join(flusher.thread, NULL);
    flusher.running = false;
    flusher.armed = false;
}

void flusher_after_fork(void)
{
    pthread_mutex_init(&flusher.lock, NULL);
    flusher.running = false;
    flusher.armed = false;
}
