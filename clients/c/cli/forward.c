/* limpet forward */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/relay.h"

#define BACKLOG 128

typedef struct Ports {
    const char *session;
    unsigned far, near; /* near 0: any that is free */
} Ports;

/* EXIT_USAGE after a message where it is none. */
static int read_port(const char *text, const char *end, unsigned least, unsigned *ret)
{
    char *stop;
    unsigned long port = strtoul(text, &stop, 10);

    if (stop == end && stop > text && port >= least && port <= 65535) {
        *ret = (unsigned)port;
        return 0;
    }
    fprintf(stderr, "limpet: '%.*s' is no port: give a number from %u to 65535\n", (int)(end - text), text,
            least);
    return EXIT_USAGE;
}

/* "PORT" or "PORT:LOCAL". */
static int read_ports(const char *operand, Ports *ret)
{
    const char *colon = strchr(operand, ':');
    int r = read_port(operand, colon ? colon : operand + strlen(operand), 1, &ret->far);

    return r || !colon ? r : read_port(colon + 1, colon + strlen(colon), 0, &ret->near);
}

/* A listening socket, or a negative errno. */
static int listen_at(unsigned port, struct sockaddr_in *ret)
{
    _cleanup_(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(*ret);
    int on = 1;

    *ret = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)ret, sizeof(*ret)) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, &size) < 0)
        return -errno;
    return take_fd(&fd);
}

/* In a child: it ends with us. */
static int serve(const Ports *ports, int near)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(closep) int far = -1;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_connect_port(client, ports->session, ports->far, &far))
        return cli_fail(client);
    relay(near, far);
    return 0;
}

static void hand_on(const Ports *ports, int near)
{
    pid_t parent = getpid();
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        _exit(getppid() == parent ? serve(ports, near) : EXIT_SANDBOX);
    }
    if (child < 0)
        fprintf(stderr, "limpet: cannot start a process: %s\n", strerror(errno));
}

static int serve_all(const Ports *ports, int listener)
{
    signal(SIGCHLD, SIG_IGN); /* the kernel reaps them */
    for (;;) {
        _cleanup_(closep) int near = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (near >= 0)
            hand_on(ports, near);
        else if (errno != EINTR && errno != ECONNABORTED)
            break;
    }
    fprintf(stderr, "limpet: no more connections can be taken: %s\n", strerror(errno));
    return EXIT_SANDBOX;
}

/* There is such a session: nobody else says so before the first connection. */
static int check_session(const char *name)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;

    if (!client)
        return EXIT_SANDBOX;
    return limpet_namespace(client, name, &names) ? cli_fail(client) : 0;
}

static int run(const void *values, char **operands, int n)
{
    Ports ports = {.session = operands[0]};
    struct sockaddr_in address;
    _cleanup_(closep) int listener = -1;
    int r = read_ports(operands[1], &ports);

    if (!r)
        r = check_session(ports.session);
    if (r)
        return r;
    listener = listen_at(ports.near, &address);
    if (listener < 0) {
        fprintf(stderr, "limpet: cannot listen at 127.0.0.1:%u: %s\n", ports.near, strerror(-listener));
        return EXIT_SANDBOX;
    }
    printf("127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return serve_all(&ports, listener);
}

const Command command_forward = {
    .name = "forward",
    .usage = "SESSION PORT[:LOCAL]",
    .summary = "Makes a port of a session reachable on this machine",
    .details = "\n"
               "Prints the address, which is port LOCAL or any free port at 127.0.0.1, and serves it until\n"
               "interrupted. Each connection leads to PORT on the session's own loopback. All users of this\n"
               "machine can connect.",
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 2,
    .operands_max = 2,
    .run = run,
};
