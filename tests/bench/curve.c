/* The floor of a call over a network: an echo over loopback by libzmq with CURVE, DEALER to ROUTER, each in
 * its own process. Argument: the size of a message in bytes. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>

#include "tests/bench/bench.h"

typedef struct Pair {
    char public_key[41], secret_key[41];
} Pair;

static void set_key(void *socket, int option, const char *key)
{
    if (zmq_setsockopt(socket, option, key, strlen(key) + 1) < 0) {
        perror("CURVE");
        exit(1);
    }
}

/* Says where it listens, and echoes. */
static void run_server(const Pair *own, int tell)
{
    void *socket = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
    const int yes = 1;
    char endpoint[64];
    size_t size = sizeof(endpoint);

    zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &yes, sizeof(yes));
    set_key(socket, ZMQ_CURVE_SECRETKEY, own->secret_key);
    if (zmq_bind(socket, "tcp://127.0.0.1:*") < 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) < 0 || write(tell, endpoint, size) < 0)
        return;
    for (;;) {
        zmq_msg_t part;

        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, 0) < 0)
            return;
        zmq_msg_send(&part, socket, zmq_msg_more(&part) ? ZMQ_SNDMORE : 0);
    }
}

static void spawn(const Pair *own, int tell)
{
    pid_t parent = getpid();

    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        run_server(own, tell);
    _exit(0);
}

typedef struct Echo {
    void *socket;
    char *message;
    size_t size;
} Echo;

static int echo(void *context, uint64_t *begin)
{
    Echo *e = context;

    return zmq_send(e->socket, e->message, e->size, 0) < 0 ||
           zmq_recv(e->socket, e->message, e->size, 0) != (int)e->size;
}

int main(int argc, char **argv)
{
    Echo e = {.size = argc > 1 ? (size_t)atol(argv[1]) : 100};
    char endpoint[64] = "";
    Pair server, client;
    int told[2];

    if (zmq_curve_keypair(server.public_key, server.secret_key) < 0 ||
        zmq_curve_keypair(client.public_key, client.secret_key) < 0 || pipe(told) < 0)
        return 1;
    spawn(&server, told[1]);
    if (read(told[0], endpoint, sizeof(endpoint) - 1) <= 0)
        return 1;
    e.message = calloc(1, e.size);
    e.socket = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    set_key(e.socket, ZMQ_CURVE_SERVERKEY, server.public_key);
    set_key(e.socket, ZMQ_CURVE_PUBLICKEY, client.public_key);
    set_key(e.socket, ZMQ_CURVE_SECRETKEY, client.secret_key);
    if (zmq_connect(e.socket, endpoint) < 0)
        return 1;
    return echo(&e, NULL) ? 1 : bench_serve(echo, &e);
}
