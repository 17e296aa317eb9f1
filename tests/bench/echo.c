/* The floor of a call: an echo over two hops of libzmq with default options, DEALER to a proxy of ROUTER and
 * DEALER to a DEALER, each in its own process, over ipc sockets. Argument: the size of a message in bytes. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>

#include "tests/bench/bench.h"

static char front[64], back[64];

static void *open_socket(void *context, int type, const char *address, int (*join)(void *, const char *))
{
    void *socket = zmq_socket(context, type);

    if (!socket || join(socket, address) < 0) {
        perror(address);
        exit(1);
    }
    return socket;
}

static void run_proxy(void)
{
    void *context = zmq_ctx_new();

    zmq_proxy(open_socket(context, ZMQ_ROUTER, front, zmq_bind),
              open_socket(context, ZMQ_DEALER, back, zmq_bind), NULL);
}

static void run_server(void)
{
    void *context = zmq_ctx_new();
    void *socket = open_socket(context, ZMQ_ROUTER, back, zmq_connect);

    for (;;) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, 0) < 0)
            return;
        zmq_msg_send(&part, socket, zmq_msg_more(&part) ? ZMQ_SNDMORE : 0);
    }
}

static void spawn(void (*run)(void))
{
    pid_t parent = getpid();

    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        run();
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
    char directory[] = "/tmp/limpet-bench-XXXXXX";
    Echo e = {.size = argc > 1 ? (size_t)atol(argv[1]) : 100};
    int status;

    if (!mkdtemp(directory))
        return 1;
    snprintf(front, sizeof(front), "ipc://%s/front", directory);
    snprintf(back, sizeof(back), "ipc://%s/back", directory);
    spawn(run_proxy);
    spawn(run_server);
    e.message = calloc(1, e.size);
    e.socket = open_socket(zmq_ctx_new(), ZMQ_DEALER, front, zmq_connect);
    status = echo(&e, NULL) ? 1 : bench_serve(echo, &e);
    unlink(front + strlen("ipc://"));
    unlink(back + strlen("ipc://"));
    rmdir(directory);
    return status;
}
