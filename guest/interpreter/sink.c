#include "guest/interpreter/sink.h"

#include <errno.h>
#include <string.h>

#include "guest/interpreter/flusher.h"

Sink sinks[2];

static void locks_init(Sink *sink)
{
    pthread_mutex_init(&sink->lock, NULL);
    sem_init(&sink->turn, 0, 1);
}

static int sink_init(Sink *sink, int fd)
{
    *sink = (Sink){.fd = fd, .filling = malloc(SINK_SIZE), .leaving = malloc(SINK_SIZE)};
    locks_init(sink);
    return sink->filling && sink->leaving ? 0 : -ENOMEM;
}

size_t sink_append(Sink *sink, const void *bytes, size_t n)
{
    pthread_mutex_lock(&sink->lock);
    n = MIN(n, SINK_SIZE - sink->filled);
    memcpy(sink->filling + sink->filled, bytes, n);
    sink->filled += n;
    pthread_mutex_unlock(&sink->lock);
    flusher_arm();
    return n;
}

/* With the turn. */
static int write_leaving(Sink *sink)
{
    while (sink->leaving_size > 0) {
        ssize_t n = write(sink->fd, sink->leaving + sink->leaving_at, sink->leaving_size);

        if (n < 0 && errno == EINTR)
            return -EINTR;
        if (n < 0)
            n = (ssize_t)sink->leaving_size;
        sink->leaving_at += (size_t)n;
        sink->leaving_size -= (size_t)n;
    }
    return 0;
}

/* With the turn, and nothing leaving. */
static void swap_buffers(Sink *sink)
{
    uint8_t *empty = sink->leaving;

    pthread_mutex_lock(&sink->lock);
    sink->leaving = sink->filling;
    sink->leaving_at = 0;
    sink->leaving_size = sink->filled;
    sink->filling = empty;
    sink->filled = 0;
    pthread_mutex_unlock(&sink->lock);
}

static int flush_with_turn(Sink *sink)
{
    int r = write_leaving(sink);

    if (r < 0)
        return r;
    swap_buffers(sink);
    return write_leaving(sink);
}

int sink_flush(Sink *sink)
{
    if (sem_wait(&sink->turn) < 0)
        return -EINTR;
    int r = flush_with_turn(sink);
    sem_post(&sink->turn);
    return r;
}

void sinks_flush(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        while (sink_flush(&sinks[i]) == -EINTR)
            ;
    }
}

static void before_fork(void)
{
    flusher_stop();
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        while (sem_wait(&sinks[i].turn) < 0)
            ;
        while (flush_with_turn(&sinks[i]) == -EINTR)
            ;
        pthread_mutex_lock(&sinks[i].lock);
    }
}

static void after_fork_parent(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        pthread_mutex_unlock(&sinks[i].lock);
        sem_post(&sinks[i].turn);
    }
}

static void after_fork_child(void)
{
    flusher_after_fork();
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        sinks[i].filled = 0;
        locks_init(&sinks[i]);
    }
}

int sinks_init(int out_fd, int err_fd)
{
    if (sink_init(&sinks[0], out_fd) < 0 || sink_init(&sinks[1], err_fd) < 0)
        return -ENOMEM;
    return -pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
