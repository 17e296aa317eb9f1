/* DEALERs of libzmq at a Listener, which runs in a thread of its own and sends back what it gets. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "host/link/listener.h"
#include "tests/support/cmocka.h"

#define MAX_FRAME   ((size_t)2 << 20)
#define PATIENCE_MS 20000 /* only a broken peer makes a test wait for it */

static struct {
    char directory[32], path[64], endpoint[80];
    void *context, *dealers[3];

    /* the thread's while it runs */
    Loop *loop;
    Listener *listener;
    LoopFile stop;
    int stop_pipe[2];
    pthread_t thread;
    PeerCredentials credentials;
    int failures;
} t;

static void send_back(void *userdata, Peer peer, const PeerCredentials *credentials, const uint8_t *bytes,
                      size_t size)
{
    t.credentials = *credentials;
    t.failures += listener_send(t.listener, peer, bytes, size) < 0;
}

static void tell_multipart(void *userdata, Peer peer)
{
    t.failures += listener_send(t.listener, peer, "several", 7) < 0;
}

static void ignore(void *userdata, Peer peer)
{
}

static const ListenerEvents events = {
    .on_message = send_back,
    .on_multipart = tell_multipart,
    .on_gone = ignore,
};

static void on_stop(LoopFile *file, uint32_t ready)
{
    loop_stop(t.loop, 0);
}

static void *run(void *argument)
{
    t.failures += loop_run(t.loop) != 0;
    return NULL;
}

static int start_listening(void)
{
    static const ListenerLimits limits = {.frame = MAX_FRAME, .queue = 4 * MAX_FRAME, .peers = 8};

    if (loop_new(&t.loop) < 0 || pipe(t.stop_pipe) < 0 ||
        loop_file_add(t.loop, &t.stop, t.stop_pipe[0], EPOLLIN, on_stop) < 0 ||
        listener_new(&t.listener, t.loop, t.path, &limits, &events, NULL) < 0)
        return -1;
    return pthread_create(&t.thread, NULL, run, NULL);
}

static void stop_listening(void)
{
    assert_int_equal(write(t.stop_pipe[1], "x", 1), 1);
    assert_int_equal(pthread_join(t.thread, NULL), 0);
    listener_free(t.listener);
    loop_file_remove(&t.stop);
    loop_free(t.loop);
    close(t.stop_pipe[0]);
    close(t.stop_pipe[1]);
    assert_int_equal(t.failures, 0);
}

static int set_up(void **state)
{
    memset(&t, 0, sizeof(t));
    strcpy(t.directory, "/tmp/limpet-link-XXXXXX");
    if (!mkdtemp(t.directory))
        return -1;
    snprintf(t.path, sizeof(t.path), "%s/sock", t.directory);
    snprintf(t.endpoint, sizeof(t.endpoint), "ipc://%s", t.path);
    t.context = zmq_ctx_new();
    return start_listening();
}

static int tear_down(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(t.dealers); i++)
        if (t.dealers[i])
            zmq_close(t.dealers[i]);
    zmq_ctx_term(t.context);
    stop_listening();
    rmdir(t.directory);
    return 0;
}

static void *dial(size_t i, const char *identity)
{
    void *dealer = t.dealers[i] = zmq_socket(t.context, ZMQ_DEALER);
    int patience = PATIENCE_MS, linger = 0, soon = 10;

    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(dealer, ZMQ_SNDTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(dealer, ZMQ_RECONNECT_IVL, &soon, sizeof(soon));
    if (identity)
        zmq_setsockopt(dealer, ZMQ_ROUTING_ID, identity, strlen(identity));
    assert_int_equal(zmq_connect(dealer, t.endpoint), 0);
    return dealer;
}

static uint8_t pattern(size_t size, size_t i)
{
    return (uint8_t)(size + i * 7 + i / 251);
}

static void send_pattern(void *dealer, size_t size)
{
    zmq_msg_t message;

    assert_int_equal(zmq_msg_init_size(&message, size), 0);
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)zmq_msg_data(&message))[i] = pattern(size, i);
    assert_int_equal(zmq_msg_send(&message, dealer, 0), (int)size);
}

static void receive_pattern(void *dealer, size_t size)
{
    zmq_msg_t message;

    zmq_msg_init(&message);
    assert_int_equal(zmq_msg_recv(&message, dealer, 0), (int)size);
    assert_false(zmq_msg_more(&message));
    for (size_t i = 0; i < size; i++)
        if (((uint8_t *)zmq_msg_data(&message))[i] != pattern(size, i))
            fail_msg("byte %zu of %zu", i, size);
    zmq_msg_close(&message);
}

TEST_WITH(every_size_in_both_directions, set_up, tear_down)
{
    static const size_t sizes[] = {0, 1, 254, 255, 256, 257, 8191, 8192, 65535, 65536, MAX_FRAME, 0, 3};
    void *dealer = dial(0, NULL);

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        send_pattern(dealer, sizes[i]);
        receive_pattern(dealer, sizes[i]);
    }
    assert_int_equal(t.credentials.pid, getpid());
    assert_int_equal(t.credentials.uid, getuid());
}

TEST_WITH(many_in_a_row, set_up, tear_down)
{
    void *dealer = dial(0, NULL);

    for (size_t i = 0; i < 500; i++)
        send_pattern(dealer, i);
    for (size_t i = 0; i < 500; i++)
        receive_pattern(dealer, i);
}

/* An identity names nobody here: two of the same are two peers, and each gets its own answers. */
TEST_WITH(with_and_without_identity, set_up, tear_down)
{
    void *dealers[] = {dial(0, "me"), dial(1, "me"), dial(2, NULL)};

    for (size_t i = 0; i < ARRAY_SIZE(dealers); i++)
        send_pattern(dealers[i], 100 + i);
    for (size_t i = 0; i < ARRAY_SIZE(dealers); i++)
        receive_pattern(dealers[i], 100 + i);
}

TEST_WITH(multipart_is_told_and_the_connection_lives, set_up, tear_down)
{
    void *dealer = dial(0, NULL);
    char said[16];

    assert_int_equal(zmq_send(dealer, "a", 1, ZMQ_SNDMORE), 1);
    assert_int_equal(zmq_send(dealer, "b", 1, 0), 1);
    assert_int_equal(zmq_recv(dealer, said, sizeof(said), 0), 7);
    assert_memory_equal(said, "several", 7);
    send_pattern(dealer, 10);
    receive_pattern(dealer, 10);
}

/* Sends until there is an answer: messages that libzmq sends before it has noticed that the connection is
 * gone are lost. */
static void send_until_answered(void *dealer, size_t size)
{
    int soon = 50, patience = PATIENCE_MS, r = -1;

    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &soon, sizeof(soon));
    for (int i = 0; r < 0; i++) {
        assert_true(i < PATIENCE_MS / soon);
        send_pattern(dealer, size);
        r = zmq_recv(dealer, NULL, 0, 0);
    }
    assert_int_equal(r, (int)size);
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &patience, sizeof(patience));
}

/* libzmq connects again by itself, to the same Listener or to the next one. */
TEST_WITH(it_connects_again, set_up, tear_down)
{
    static const uint8_t too_large[MAX_FRAME + 1];
    void *dealer = dial(0, "me");

    send_pattern(dealer, 10);
    receive_pattern(dealer, 10);
    stop_listening();
    assert_int_equal(start_listening(), 0);
    send_until_answered(dealer, 11);
    assert_int_equal(zmq_send(dealer, too_large, sizeof(too_large), 0), (int)sizeof(too_large));
    send_until_answered(dealer, 11);
}

TEST_WITH(heartbeats, set_up, tear_down)
{
    void *dealer = t.dealers[0] = zmq_socket(t.context, ZMQ_DEALER);
    int interval = 5, patience = PATIENCE_MS, linger = 0;

    zmq_setsockopt(dealer, ZMQ_HEARTBEAT_IVL, &interval, sizeof(interval));
    /* Otherwise as long as the interval: a PONG that takes that long on a busy host would end the connection.
     */
    zmq_setsockopt(dealer, ZMQ_HEARTBEAT_TIMEOUT, &patience, sizeof(patience));
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(dealer, ZMQ_LINGER, &linger, sizeof(linger));
    assert_int_equal(zmq_connect(dealer, t.endpoint), 0);
    for (size_t i = 0; i < 2000; i++) { /* PINGs come in between */
        send_pattern(dealer, i % 300);
        receive_pattern(dealer, i % 300);
    }
}
