#include "host/engine/proof.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "proto/base/base.h"
#include "proto/base/clock.h"

#define PATIENCE_NSEC (500 * NSEC_PER_MSEC)
#define PAUSE_NSEC    (100 * NSEC_PER_MSEC)
#define ATTEMPTS      50

static void add_server(Proof *proof, const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

    if (proof->n < SERVERS_MOST && getaddrinfo(host, port, &hints, &proof->servers[proof->n]) == 0)
        proof->n++;
}

static void find_servers(Proof *proof)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    FILE *file = fopen("/etc/resolv.conf", "re");
    char line[256], address[64];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "nameserver %63s", address) == 1)
            add_server(proof, address, "53");
    if (file)
        fclose(file);
    if (host && port)
        add_server(proof, host, port);
}

static void describe(char ret[static REACH_TEXT], const struct addrinfo *server)
{
    char host[INET6_ADDRSTRLEN + 16] = "?", port[8] = "?";

    getnameinfo(server->ai_addr, server->ai_addrlen, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(ret, REACH_TEXT, "%s port %s", host, port);
}

static int begin(const struct addrinfo *server)
{
    int fd = socket(server->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, server->ai_addr, server->ai_addrlen) < 0 && errno != EINPROGRESS)
        close_fd(&fd);
    return fd;
}

static bool is_connected(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

static void hang_up(Proof *proof)
{
    for (size_t i = 0; i < proof->n; i++)
        close_fd(&proof->asked[i]);
}

/* Asks all of them at once. */
static void ask(Proof *proof)
{
    for (size_t i = 0; i < proof->n; i++)
        proof->asked[i] = begin(proof->servers[i]);
    proof->attempts++;
    proof->answered = false;
    proof->due = clock_now() + PATIENCE_NSEC;
}

void proof_begin(Proof *proof)
{
    find_servers(proof);
    ask(proof);
}

/* Returns how many may still answer. */
static size_t hear(Proof *proof)
{
    size_t waiting = 0;

    for (size_t i = 0; i < proof->n; i++) {
        struct pollfd polled = {.fd = proof->asked[i], .events = POLLOUT};

        if (polled.fd < 0)
            continue;
        if (poll(&polled, 1, 0) <= 0) {
            waiting++;
            continue;
        }
        if (is_connected(polled.fd)) {
            describe(proof->address, proof->servers[i]);
            proof->answered = true;
        }
        close_fd(&proof->asked[i]);
    }
    return waiting;
}

Reach proof_look(Proof *proof)
{
    uint64_t now = clock_now();
    size_t waiting;

    if (proof->reach != REACH_UNKNOWN)
        return proof->reach;
    if (proof->answered) {
        if (now >= proof->due)
            ask(proof);
        return REACH_UNKNOWN;
    }
    waiting = hear(proof);
    if (proof->answered && proof->attempts == ATTEMPTS)
        proof->reach = REACH_SOMETHING;
    else if (proof->answered)
        proof->due = now + PAUSE_NSEC;
    else if (waiting == 0 || now >= proof->due)
        proof->reach = REACH_NOTHING;
    if (proof->answered || proof->reach != REACH_UNKNOWN)
        hang_up(proof);
    return proof->reach;
}

void proof_end(Proof *proof)
{
    hang_up(proof);
    for (size_t i = 0; i < proof->n; i++)
        freeaddrinfo(proof->servers[i]);
}
