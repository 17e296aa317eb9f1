/* The commands about the network of a session. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clients/c/cli/cli.h"
#include "proto/base/base.h"
#include "proto/base/buf.h"

/* ---- bindings ---- */

static size_t count(const char *const *texts)
{
    size_t n = 0;

    while (texts && texts[n])
        n++;
    return n;
}

LimpetBinding *bindings_free(LimpetBinding *bindings)
{
    for (size_t i = 0; bindings && bindings[i].name; i++) {
        for (size_t k = 0; bindings[i].headers && bindings[i].headers[k]; k++)
            free((char *)bindings[i].headers[k]);
        free((void *)bindings[i].headers);
        free((char *)bindings[i].name);
    }
    free(bindings);
    return NULL;
}

static int out_of_memory(void)
{
    fputs("limpet: out of memory\n", stderr);
    return EXIT_SANDBOX;
}

/* ---- what is in a header ---- */

static int append_variable(Buf *ret, const char *name, size_t size)
{
    char *terminated _cleanup_(freep) = strndup(name, size);
    const char *value = terminated ? getenv(terminated) : NULL;

    if (!terminated)
        return out_of_memory();
    if (value)
        return buf_append(ret, value, strlen(value)) < 0 ? out_of_memory() : 0;
    fprintf(stderr, "limpet: --header: the environment has no %s\n", terminated);
    return EXIT_USAGE;
}

static int expand(const char *text, char **ret)
{
    _cleanup_(buf_deinit) Buf expanded = BUF_NULL;
    int r = 0;

    while (r == 0 && *text) {
        const char *end = text[0] == '$' && text[1] == '{' ? strchr(text, '}') : NULL;

        if (end)
            r = append_variable(&expanded, text + 2, (size_t)(end - text) - 2);
        else if (buf_append(&expanded, text, 1) < 0)
            r = out_of_memory();
        text = end ? end + 1 : text + 1;
    }
    if (r == 0 && buf_append(&expanded, "", 1) < 0)
        r = out_of_memory();
    if (r == 0 && !(*ret = strdup((const char *)buf_head(&expanded))))
        r = out_of_memory();
    return r;
}

/* ---- the two lists ---- */

static int add_header(LimpetBinding *bindings, const char *header, size_t most)
{
    size_t name = strcspn(header, "="), n;
    LimpetBinding *of = bindings;
    const char **headers;

    while (of->name && (strlen(of->name) != name || strncmp(of->name, header, name) != 0))
        of++;
    if (!header[name] || !of->name || !strchr(header + name, ':')) {
        fputs("limpet: --header takes NAME='Header: value', and NAME has a --binding\n", stderr);
        return EXIT_USAGE;
    }
    if (!of->headers)
        of->headers = calloc(most + 1, sizeof(*of->headers));
    headers = (const char **)of->headers;
    if (!headers)
        return out_of_memory();
    n = count(headers);
    return expand(header + name + 1, (char **)&headers[n]);
}

static int add_binding(LimpetBinding *ret, const char *binding)
{
    size_t name = strcspn(binding, "=");

    if (!binding[name] || name == 0) {
        fprintf(stderr, "limpet: --binding takes NAME=URL, not '%s'\n", binding);
        return EXIT_USAGE;
    }
    ret->url = binding + name + 1;
    ret->name = strndup(binding, name);
    return ret->name ? 0 : out_of_memory();
}

int bindings_read(const char *const *bindings, const char *const *headers, LimpetBinding **ret)
{
    _cleanup_(bindings_freep) LimpetBinding *read = NULL;
    size_t n = count(bindings), n_headers = count(headers);
    int r = 0;

    if (n + n_headers == 0)
        return 0;
    read = calloc(n + 1, sizeof(*read));
    if (!read)
        return out_of_memory();
    for (size_t i = 0; r == 0 && i < n; i++)
        r = add_binding(&read[i], bindings[i]);
    for (size_t i = 0; r == 0 && i < n_headers; i++)
        r = add_header(read, headers[i], n_headers);
    if (r == 0)
        *ret = take(read);
    return r;
}

/* ---- limpet network ---- */

typedef struct NetworkValues {
    const char *const *allow, *const *bindings, *const *headers;
    bool none, unbind, json;
} NetworkValues;

static const Option network_options[] = {
    OPTION_ROW(0, "allow", OPTION_LIST, NetworkValues, allow, "HOST:PORT",
               "destination that the code may connect to from now on; may be repeated",
               .completes = COMPLETE_NOTHING),
    OPTION_ROW(0, "none", OPTION_FLAG, NetworkValues, none, NULL, "allow nothing but bindings from now on"),
    BINDING_ROWS(NetworkValues),
    OPTION_ROW(0, "unbind", OPTION_FLAG, NetworkValues, unbind, NULL, "remove all bindings"),
    OPTION_ROW(0, "json", OPTION_FLAG, NetworkValues, json, NULL, "print it as JSON"),
};

static void print(const LimpetNetwork *network)
{
    for (size_t i = 0; i < network->n_allow; i++)
        printf("%s\n", network->allow[i]);
    for (size_t i = 0; i < network->n_bindings; i++)
        printf("http://%s.limpet/ -> %s\n", network->bindings[i].name, network->bindings[i].url);
    if (network->n_allow + network->n_bindings == 0)
        puts("none");
}

static int run_network(const void *values, char **operands, int n)
{
    static const char *const nothing[] = {NULL};
    static const LimpetBinding unbound[] = {{0}};
    const NetworkValues *given = values;
    _cleanup_(bindings_freep) LimpetBinding *bindings = NULL;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(limpet_network_freep) LimpetNetwork *network = NULL;
    int r = bindings_read(given->bindings, given->headers, &bindings);

    if (r)
        return r;
    if ((given->none && given->allow) || (given->unbind && bindings)) {
        fputs("limpet: network: --none goes without --allow, and --unbind without --binding\n", stderr);
        return EXIT_USAGE;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (limpet_set_network(client, operands[0], given->none ? nothing : given->allow,
                           given->unbind ? unbound : bindings, &network))
        return cli_fail(client);
    if (given->json)
        return cli_print_json(limpet_network_json(network));
    print(network);
    return 0;
}

const Command command_network = {
    .name = "network",
    .usage = "[OPTIONS] SESSION",
    .summary = "Shows or changes the destinations that a session may connect to",
    .details =
        "\nA destination is HOST:PORT, *.DOMAIN:PORT, or an address and a port; the default port is 443.\n"
        "Connections to destinations that are no longer allowed are closed at once. Without options, it shows\n"
        "the allowed destinations.",
    .options = {network_options, ARRAY_SIZE(network_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(NetworkValues),
    .run = run_network,
};

/* ---- copying between two connections ---- */

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

/* Copies both ways until both have ended, or one breaks off; the end of one way is passed on alone. Closes
 * neither. */
static void relay(int one, int other)
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

/* ---- limpet forward ---- */

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

static int run_forward(const void *values, char **operands, int n)
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
    .run = run_forward,
};
