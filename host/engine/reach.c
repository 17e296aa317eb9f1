#include "host/engine/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/base.h"

#define ATTEMPTS     10
#define PATIENCE_MS  500 /* for an answer, and between attempts */
#define SERVERS_MOST 4

typedef struct Servers {
    struct addrinfo *found[SERVERS_MOST];
    size_t n;
} Servers;

static void add_server(Servers *servers, const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

    if (servers->n < SERVERS_MOST && getaddrinfo(host, port, &hints, &servers->found[servers->n]) == 0)
        servers->n++;
}

static void find_servers(Servers *servers)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    FILE *file = fopen("/etc/resolv.conf", "re");
    char line[256], address[64];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "nameserver %63s", address) == 1)
            add_server(servers, address, "53");
    if (file)
        fclose(file);
    if (host && port)
        add_server(servers, host, port);
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

/* Asks all of them at once. */
static bool ask(const Servers *servers, char ret[static REACH_TEXT])
{
    struct pollfd polled[SERVERS_MOST];
    size_t waiting = servers->n;
    bool answered = false;

    for (size_t i = 0; i < servers->n; i++)
        polled[i] = (struct pollfd){.fd = begin(servers->found[i]), .events = POLLOUT};
    while (!answered && waiting-- > 0 && poll(polled, servers->n, PATIENCE_MS) > 0)
        for (size_t i = 0; i < servers->n; i++) {
            if (!polled[i].revents || polled[i].fd < 0)
                continue;
            if (is_connected(polled[i].fd)) {
                describe(ret, servers->found[i]);
                answered = true;
            }
            close_fd(&polled[i].fd);
        }
    for (size_t i = 0; i < servers->n; i++)
        close_fd(&polled[i].fd);
    return answered;
}

bool reach_anything(char ret[static REACH_TEXT])
{
    const struct timespec pause = {.tv_nsec = PATIENCE_MS * 1000000L};
    Servers servers = {.n = 0};
    bool answered = true;

    find_servers(&servers);
    for (unsigned i = 0; answered && i < ATTEMPTS; i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        answered = ask(&servers, ret);
    }
    for (size_t i = 0; i < servers.n; i++)
        freeaddrinfo(servers.found[i]);
    return answered;
}
