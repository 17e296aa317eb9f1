/* Our DEALER against the ROUTER of libzmq, over a unix socket. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

#include "proto/zmtp.h"
#include "tests/support/cmocka.h"

#define MAX_FRAME   ((size_t)2 << 20)
#define PATIENCE_MS 20000 /* only a broken peer makes a test wait for it */

static struct {
    char directory[32], path[64];
    void *context, *router;
    int fd;
    Zmtp zmtp;
    Buf in, out;
    uint8_t id[64];
    size_t id_size;
} t;

static int set_up(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char endpoint[80];
    int patience = PATIENCE_MS, linger = 0;

    strcpy(t.directory, "/tmp/limpet-zmtp-XXXXXX");
    if (!mkdtemp(t.directory))
        return -1;
    snprintf(t.path, sizeof(t.path), "%s/sock", t.directory);
    snprintf(endpoint, sizeof(endpoint), "ipc://%s", t.path);
    t.context = zmq_ctx_new();
    t.router = zmq_socket(t.context, ZMQ_ROUTER);
    zmq_setsockopt(t.router, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(t.router, ZMQ_SNDTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(t.router, ZMQ_LINGER, &linger, sizeof(linger));
    if (zmq_bind(t.router, endpoint) < 0)
        return -1;
    t.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, t.path, strlen(t.path) + 1);
    if (connect(t.fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -1;
    return zmtp_init(&t.zmtp, ZMTP_DEALER, MAX_FRAME, &t.out);
}

static int tear_down(void **state)
{
    close(t.fd);
    zmq_close(t.router);
    zmq_ctx_term(t.context);
    unlink(t.path);
    rmdir(t.directory);
    buf_deinit(&t.in);
    buf_deinit(&t.out);
    return 0;
}

/* Sends and receives once. False when the router has closed the connection. */
static bool exchange(void)
{
    struct pollfd polled = {.fd = t.fd, .events = (short)(POLLIN | (t.out.size > 0 ? POLLOUT : 0))};

    assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
    if (polled.revents & POLLOUT) {
        ssize_t n = send(t.fd, buf_head(&t.out), t.out.size, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(n > 0);
        buf_consume(&t.out, (size_t)n);
    }
    return !(polled.revents & POLLIN) || buf_read_fd(&t.in, t.fd, 65536) > 0;
}

static void shake_hands(void)
{
    ZmtpFrame frame;

    while (t.zmtp.state != ZMTP_READY) {
        assert_true(exchange());
        assert_int_equal(zmtp_next(&t.zmtp, &t.in, &t.out, &frame), 0);
    }
}

static uint8_t pattern(size_t size, size_t i)
{
    return (uint8_t)(size + i * 7 + i / 251);
}

static void send_to_router(size_t size)
{
    size_t mark;

    assert_int_equal(zmtp_frame_begin(&t.zmtp, &t.out, &mark), 0);
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = pattern(size, i);
        assert_int_equal(buf_append(&t.out, &byte, 1), 0);
    }
    zmtp_frame_end(&t.out, mark);
    while (t.out.size > 0)
        assert_true(exchange());
}

static void receive_at_router(size_t size)
{
    zmq_msg_t message;
    int id_size = zmq_recv(t.router, t.id, sizeof(t.id), 0);

    assert_true(id_size > 0);
    t.id_size = (size_t)id_size;
    zmq_msg_init(&message);
    assert_int_equal(zmq_msg_recv(&message, t.router, 0), (int)size);
    assert_false(zmq_msg_more(&message));
    for (size_t i = 0; i < size; i++)
        if (((uint8_t *)zmq_msg_data(&message))[i] != pattern(size, i))
            fail_msg("byte %zu of %zu", i, size);
    zmq_msg_close(&message);
}

static void send_from_router(size_t size, int flags)
{
    zmq_msg_t message;

    assert_int_equal(zmq_send(t.router, t.id, t.id_size, ZMQ_SNDMORE), (int)t.id_size);
    assert_int_equal(zmq_msg_init_size(&message, size), 0);
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)zmq_msg_data(&message))[i] = pattern(size, i);
    assert_int_equal(zmq_msg_send(&message, t.router, flags), (int)size);
}

static int receive_here(ZmtpFrame *ret)
{
    int r;

    while ((r = zmtp_next(&t.zmtp, &t.in, &t.out, ret)) == 0)
        assert_true(exchange());
    return r;
}

static void every_size_in_both_directions(void **state)
{
    static const size_t sizes[] = {0, 1, 254, 255, 256, 257, 8191, 8192, 65535, 65536, 1 << 20, 0, 3};
    ZmtpFrame frame;

    shake_hands();
    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        send_to_router(sizes[s]);
        receive_at_router(sizes[s]);
        send_from_router(sizes[s], 0);
        assert_int_equal(receive_here(&frame), 1);
        assert_int_equal(frame.size, sizes[s]);
        for (size_t i = 0; i < frame.size; i++)
            if (frame.data[i] != pattern(frame.size, i))
                fail_msg("byte %zu of %zu", i, frame.size);
        buf_consume(&t.in, frame.used);
    }
}

static void many_in_a_row(void **state)
{
    ZmtpFrame frame;

    shake_hands();
    for (size_t i = 0; i < 500; i++)
        send_to_router(i);
    for (size_t i = 0; i < 500; i++)
        receive_at_router(i);
    for (size_t i = 0; i < 500; i++)
        send_from_router(i, 0);
    for (size_t i = 0; i < 500; i++) {
        assert_int_equal(receive_here(&frame), 1);
        assert_int_equal(frame.size, i);
        buf_consume(&t.in, frame.used);
    }
}

static void multipart_from_router_is_refused(void **state)
{
    ZmtpFrame frame;

    shake_hands();
    send_to_router(1);
    receive_at_router(1);
    send_from_router(5, ZMQ_SNDMORE);
    assert_int_equal(zmq_send(t.router, "x", 1, 0), 1);
    assert_int_equal(receive_here(&frame), -EPROTO);
}

static void oversize_from_router_is_refused(void **state)
{
    ZmtpFrame frame;

    shake_hands();
    send_to_router(1);
    receive_at_router(1);
    send_from_router(MAX_FRAME + 1, 0);
    assert_int_equal(receive_here(&frame), -EMSGSIZE);
}

#define INTEROP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INTEROP_TEST(every_size_in_both_directions),
        INTEROP_TEST(many_in_a_row),
        INTEROP_TEST(multipart_from_router_is_refused),
        INTEROP_TEST(oversize_from_router_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
