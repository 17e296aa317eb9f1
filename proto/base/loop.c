#include "proto/base/loop.h"

#include <errno.h>

#include "proto/base/clock.h"

#define EVENTS_BATCH 64

struct Loop {
    int epoll_fd;
    bool stopped;
    bool no_nanoseconds; /* the kernel has no epoll_pwait2 */
    int code;
    uint64_t turn;

    List idles;

    LoopTimer **timers; /* binary heap by `due` */
    size_t timer_count, timer_capacity;

    /* Events of the last wait; entries of files that are removed meanwhile become NULL. */
    struct epoll_event events[EVENTS_BATCH];
    int event_count, event_at; /* from there on they are to be told */
};

int loop_new(Loop **ret)
{
    Loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return -ENOMEM;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        int r = -errno;
        free(loop);
        return r;
    }
    list_init(&loop->idles);
    *ret = loop;
    return 0;
}

Loop *loop_free(Loop *loop)
{
    if (!loop)
        return NULL;
    close(loop->epoll_fd);
    free(loop->timers);
    free(loop);
    return NULL;
}

void loop_stop(Loop *loop, int code)
{
    loop->stopped = true;
    loop->code = code;
}

uint64_t loop_turn(const Loop *loop)
{
    return loop->turn;
}

/* ---- files ---- */

int loop_file_add(Loop *loop, LoopFile *file, int fd, uint32_t events, void (*on_ready)(LoopFile *, uint32_t))
{
    struct epoll_event event = {.events = events, .data.ptr = file};

    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    *file = (LoopFile){.on_ready = on_ready, .loop = loop, .fd = fd, .events = events};
    return 0;
}

int loop_file_change(LoopFile *file, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = file};

    if (events == file->events)
        return 0;
    if (epoll_ctl(file->loop->epoll_fd, EPOLL_CTL_MOD, file->fd, &event) < 0)
        return -errno;
    file->events = events;
    return 0;
}

void loop_file_remove(LoopFile *file)
{
    Loop *loop = file->loop;

    if (!loop)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, file->fd, NULL);
    for (int i = 0; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == file)
            loop->events[i].data.ptr = NULL;
    file->loop = NULL;
}

bool loop_file_is_due(const LoopFile *file)
{
    const Loop *loop = file->loop;

    for (int i = loop ? loop->event_at : 0; loop && i < loop->event_count; i++)
        if (loop->events[i].data.ptr == file)
            return true;
    return false;
}

static void dispatch_files(Loop *loop)
{
    for (loop->event_at = 0; loop->event_at < loop->event_count && !loop->stopped;) {
        const struct epoll_event *event = &loop->events[loop->event_at++];
        LoopFile *file = event->data.ptr;

        if (file)
            file->on_ready(file, event->events);
    }
    loop->event_count = 0;
}

/* ---- timers ---- */

static void heap_put(Loop *loop, size_t at, LoopTimer *timer)
{
    loop->timers[at] = timer;
    timer->index = at + 1;
}

static void heap_up(Loop *loop, size_t at)
{
    LoopTimer *timer = loop->timers[at];

    while (at > 0 && timer->due < loop->timers[(at - 1) / 2]->due) {
        heap_put(loop, at, loop->timers[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(loop, at, timer);
}

static void heap_down(Loop *loop, size_t at)
{
    LoopTimer *timer = loop->timers[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < loop->timer_count && loop->timers[child + 1]->due < loop->timers[child]->due)
            child++;
        if (child >= loop->timer_count || timer->due <= loop->timers[child]->due)
            break;
        heap_put(loop, at, loop->timers[child]);
        at = child;
    }
    heap_put(loop, at, timer);
}

static int heap_append(Loop *loop, LoopTimer *timer)
{
    if (loop->timer_count == loop->timer_capacity) {
        size_t capacity = loop->timer_capacity ? loop->timer_capacity * 2 : 16;
        LoopTimer **timers = reallocarray(loop->timers, capacity, sizeof(LoopTimer *));

        if (!timers)
            return -ENOMEM;
        loop->timers = timers;
        loop->timer_capacity = capacity;
    }
    heap_put(loop, loop->timer_count++, timer);
    return 0;
}

int loop_timer_set(Loop *loop, LoopTimer *timer, uint64_t due, void (*on_due)(LoopTimer *))
{
    if (!loop_timer_is_set(timer)) {
        int r = heap_append(loop, timer);
        if (r < 0)
            return r;
    }
    timer->loop = loop;
    timer->on_due = on_due;
    timer->due = due;
    heap_up(loop, timer->index - 1);
    heap_down(loop, timer->index - 1);
    return 0;
}

void loop_timer_cancel(LoopTimer *timer)
{
    Loop *loop = timer->loop;
    size_t at = timer->index - 1;

    if (!loop_timer_is_set(timer))
        return;
    timer->index = 0;
    LoopTimer *last = loop->timers[--loop->timer_count];
    if (last == timer)
        return;
    heap_put(loop, at, last);
    heap_up(loop, at);
    heap_down(loop, last->index - 1);
}

/* A timer that sets itself again to a time that has passed waits for the next round: as many run as were set
 * at the start, at most. */
static void dispatch_timers(Loop *loop)
{
    uint64_t now = loop->timer_count > 0 ? clock_now() : 0;

    for (size_t n = loop->timer_count; n > 0 && loop->timer_count > 0 && !loop->stopped; n--) {
        LoopTimer *first = loop->timers[0];

        if (first->due > now)
            return;
        loop_timer_cancel(first);
        first->on_due(first);
    }
}

/* ---- idle callbacks ---- */

void loop_idle_add(Loop *loop, LoopIdle *idle, void (*on_idle)(LoopIdle *))
{
    if (idle->armed)
        return;
    idle->on_idle = on_idle;
    idle->armed = true;
    list_append(&loop->idles, &idle->link);
}

void loop_idle_remove(LoopIdle *idle)
{
    if (!idle->armed)
        return;
    idle->armed = false;
    list_remove(&idle->link);
}

/* Takes the armed ones aside first, so that one that arms itself again waits for the next round. */
static void dispatch_idles(Loop *loop)
{
    List round;

    if (list_empty(&loop->idles))
        return;
    round = loop->idles;
    round.next->prev = round.prev->next = &round;
    list_init(&loop->idles);
    while (!list_empty(&round) && !loop->stopped) {
        LoopIdle *idle = list_entry(list_first(&round), LoopIdle, link);

        loop_idle_remove(idle);
        idle->on_idle(idle);
    }
    while (!list_empty(&round)) { /* stopped: the rest stays armed */
        List *link = list_first(&round);

        list_remove(link);
        list_append(&loop->idles, link);
    }
}

/* ---- waiting ---- */

static int wait_milliseconds(Loop *loop, const struct timespec *timeout)
{
    int64_t milliseconds = -1;

    if (timeout) /* rounded up, so as not to wake before the timer is due */
        milliseconds = (int64_t)timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000;
    return epoll_wait(loop->epoll_fd, loop->events, EVENTS_BATCH, (int)MIN(milliseconds, INT32_MAX));
}

static int wait_for_events(Loop *loop, const struct timespec *timeout)
{
    if (!loop->no_nanoseconds) {
        int n = epoll_pwait2(loop->epoll_fd, loop->events, EVENTS_BATCH, timeout, NULL);
        if (n >= 0 || errno != ENOSYS)
            return n;
        loop->no_nanoseconds = true;
    }
    return wait_milliseconds(loop, timeout);
}

static int loop_wait(Loop *loop)
{
    struct timespec timeout = {0};
    bool forever = false;

    if (list_empty(&loop->idles)) {
        forever = loop->timer_count == 0;
        uint64_t now = forever ? 0 : clock_now(), due = forever ? 0 : loop->timers[0]->due;
        uint64_t left = due > now ? due - now : 0;
        timeout = (struct timespec){(time_t)(left / NSEC_PER_SEC), (long)(left % NSEC_PER_SEC)};
    }
    int n = wait_for_events(loop, forever ? NULL : &timeout);
    if (n < 0 && errno != EINTR)
        return -errno;
    loop->event_count = MAX(n, 0);
    return 0;
}

int loop_run(Loop *loop)
{
    int r = 0;

    while (r == 0 && !loop->stopped) {
        loop->turn++;
        dispatch_idles(loop);
        if (loop->stopped)
            break;
        r = loop_wait(loop);
        dispatch_files(loop);
        dispatch_timers(loop);
    }
    if (r < 0)
        return r;
    loop->stopped = false;
    return loop->code;
}
