#include "clients/c/cli/relay.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/base.h"

#define PIECE (64u << 10)

/* A direction of the relay. */
typedef struct Way {
    int from, to;
    char bytes[PIECE];
    size_t at, n; /* read and not written yet: from `at` to `n` */
    bool ended;
} Way;

/* False where it breaks off. */
static bool fill(Way *way)
{
    ssize_t n = recv(way->from, way->bytes, sizeof(way->bytes), MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    way->at = 0;
    way->n = (size_t)n;
    if (n == 0) {
        way->ended = true;
        shutdown(way->to, SHUT_WR);
    }
    return true;
}

static bool drain(Way *way)
{
    ssize_t n = send(way->to, way->bytes + way->at, way->n - way->at, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    way->at += (size_t)n;
    return true;
}

static bool is_full(const Way *way)
{
    return way->at < way->n;
}

static struct pollfd wanted(const Way *way)
{
    if (way->ended)
        return (struct pollfd){.fd = -1};
    return is_full(way) ? (struct pollfd){.fd = way->to, .events = POLLOUT}
                        : (struct pollfd){.fd = way->from, .events = POLLIN};
}

void relay(int one, int other)
{
    Way ways[2] = {{.from = one, .to = other}, {.from = other, .to = one}};
    bool goes_on = true;

    while (goes_on && !(ways[0].ended && ways[1].ended)) {
        struct pollfd polled[] = {wanted(&ways[0]), wanted(&ways[1])};

        if (poll(polled, ARRAY_SIZE(polled), -1) < 0 && errno != EINTR)
            return;
        for (unsigned i = 0; goes_on && i < ARRAY_SIZE(ways); i++)
            if (polled[i].revents)
                goes_on = is_full(&ways[i]) ? drain(&ways[i]) : fill(&ways[i]);
    }
}
