/* The commands that connections between two machines need. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "clients/c/cli/cli.h"
#include "clients/c/client.h"
#include "clients/c/remote.h"
#include "proto/base/fdio.h"

/* ---- limpet keygen ---- */

#ifdef LIMPET_NET
#endif

static bool make_pair(Certificate *ret)
{
#ifdef LIMPET_NET
    const ZmqLibrary *zmq = zmq_library();

    return zmq && zmq->zmq_curve_keypair(ret->public_key, ret->secret_key) == 0;
#else
    return false;
#endif
}

/* The directories of the standard file. */
static void make_directories(char *path)
{
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static int write_pair(const Certificate *pair, const char *path)
{
    int fd _cleanup_(closep) = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : certificate_write(pair, fd);
}

static int run_keygen(const void *values, char **operands, int n)
{
    char path[PATH_MAX];
    Certificate pair;
    int r;

    if (n > 0) {
        snprintf(path, sizeof(path), "%s", operands[0]);
    } else {
        keys_path(path);
        make_directories(path);
    }
    if (!make_pair(&pair)) {
        fprintf(stderr, "limpet: keys are made by libzmq, which is not installed (Debian: libzmq5)\n");
        return EXIT_SANDBOX;
    }
    r = write_pair(&pair, path);
    explicit_bzero(pair.secret_key, sizeof(pair.secret_key));
    if (r < 0) {
        fprintf(stderr, "limpet: %s: %s\n", path,
                r == -EEXIST ? "it is there already; a new key needs another file" : strerror(-r));
        return EXIT_SANDBOX;
    }
    fprintf(stderr, "The pair of keys is in %s. The public key, for a line of authorized_keys:\n", path);
    printf("%s\n", pair.public_key);
    return 0;
}

const Command command_keygen = {
    .name = "keygen",
    .usage = "[FILE]",
    .summary = "Makes a pair of keys for controllers on other machines, and prints the public one",
    .details = "\nThe default FILE is limpet.key_secret in the user's configuration directory, where\n"
               "`limpet --connect` looks for it. An existing file is not replaced.",
    .operands_max = 1,
    .operands = {COMPLETE_FILE},
    .run = run_keygen,
};

/* ---- limpet dial-stdio ---- */

#define PIECE (64u << 10)

/* Bytes on their way in one of the two directions. */
typedef struct Direction {
    char bytes[PIECE];
    size_t at, n; /* read and not written yet: from `at` to `n` */
    bool ended;
} Direction;

typedef struct Dialled {
    int fd; /* the controller's, or the connection to a port that it has passed in its place */
    Direction up, down;
} Dialled;

static bool is_full(const Direction *way)
{
    return way->at < way->n;
}

/* Tells whether the direction goes on after a read of `n` bytes, or a negative errno. */
static bool take_read(Direction *way, ssize_t n)
{
    if (n == -EAGAIN || n == -EINTR)
        return true;
    way->at = 0;
    way->n = n > 0 ? (size_t)n : 0;
    way->ended = n == 0;
    return n >= 0;
}

static bool drain(Direction *way, int to)
{
    ssize_t n = write(to, way->bytes + way->at, way->n - way->at);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    way->at += (size_t)n;
    return true;
}

static int option_of(int fd, int name)
{
    int value;
    socklen_t size = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -errno : value;
}

/* A connection to a port takes the place of the one that was asked for it, after the answer: standard input
 * and output have no other way for it. Files that a controller opens for clients of its own machine go
 * nowhere. */
static void take_passed(Dialled *dialled, int *passed)
{
    int domain = *passed < 0 ? -1 : option_of(*passed, SO_DOMAIN);

    if (domain == AF_INET || domain == AF_INET6) {
        close(dialled->fd);
        dialled->fd = take_fd(passed);
    }
    close_fd(passed);
}

static bool fill_up(Dialled *dialled)
{
    ssize_t n = read(STDIN_FILENO, dialled->up.bytes, PIECE);

    if (!take_read(&dialled->up, n < 0 ? -errno : n))
        return false;
    if (dialled->up.ended)
        shutdown(dialled->fd, SHUT_WR);
    return true;
}

static bool fill_down(Dialled *dialled)
{
    int passed = -1;
    bool goes_on =
        take_read(&dialled->down, receive_passed(dialled->fd, dialled->down.bytes, PIECE, &passed));

    take_passed(dialled, &passed);
    return goes_on && !dialled->down.ended;
}

/* Until the other side has ended: not every program that carries this one's output can end half of it. */
static void relay_standard(Dialled *dialled)
{
    Direction *up = &dialled->up, *down = &dialled->down;
    bool goes_on = true;

    while (goes_on) {
        struct pollfd polled[] = {
            {.fd = up->ended || is_full(up) ? -1 : STDIN_FILENO, .events = POLLIN},
            {.fd = is_full(up) ? dialled->fd : -1, .events = POLLOUT},
            {.fd = is_full(down) ? -1 : dialled->fd, .events = POLLIN},
            {.fd = is_full(down) ? STDOUT_FILENO : -1, .events = POLLOUT},
        };

        if (poll(polled, ARRAY_SIZE(polled), -1) < 0 && errno != EINTR)
            return;
        if (polled[0].revents)
            goes_on = fill_up(dialled);
        if (goes_on && polled[1].revents)
            goes_on = drain(up, dialled->fd);
        if (goes_on && polled[3].revents)
            goes_on = drain(down, STDOUT_FILENO);
        if (goes_on && polled[2].revents)
            goes_on = fill_down(dialled);
    }
}

/* A connection to the controller that has just answered. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    return take_fd(&fd);
}

/* Connections of this machine alone: a command that came back here would do so for ever. */
static int check_place(void)
{
    const char *place = getenv("LIMPET_SOCKET");

    if (!place || !(dial_is(place) || remote_is(place)))
        return 0;
    fprintf(stderr,
            "limpet: dial-stdio is for the controller of its own machine, and here LIMPET_SOCKET is %s\n",
            place);
    return EXIT_USAGE;
}

static int open_controller(void)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    int fd;

    if (!client)
        return -1;
    fd = connect_to(client->address.path);
    if (fd < 0)
        fprintf(stderr, "limpet: %s: %s\n", client->address.path, strerror(-fd));
    return fd;
}

static int run_dial_stdio(const void *values, char **operands, int n)
{
    Dialled *dialled _cleanup_(freep) = NULL;
    int r = check_place();

    if (r)
        return r;
    dialled = calloc(1, sizeof(*dialled));
    if (!dialled || (dialled->fd = open_controller()) < 0)
        return EXIT_SANDBOX;
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);
    relay_standard(dialled);
    close(dialled->fd);
    return 0;
}

const Command command_dial_stdio = {
    .name = "dial-stdio",
    .usage = "",
    .summary = "Makes its standard input and output a connection to the controller of this machine",
    .details =
        "\nFor clients on other machines, which run this command here: addresses such as ssh://HOST and docker://CONTEXT\n"
        "do so, and exec:COMMAND with a command of your own.",
    .run = run_dial_stdio,
};
