/* guest/channel.h: both ends, over a real socket pair. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "guest/channel.h"
#include "proto/limits.h"

static void append_frame(Buf *out, const char *text)
{
    size_t mark;

    assert_int_equal(channel_frame_begin(out, &mark), 0);
    assert_int_equal(buf_append(out, text, strlen(text)), 0);
    channel_frame_end(out, mark);
}

static void assert_frame(const ChannelFrame *frame, const char *text)
{
    assert_int_equal(frame->size, strlen(text));
    assert_memory_equal(frame->data, text, frame->size);
    assert_int_equal(frame->used, frame->size + 4);
}

static void test_frames_follow_each_other(void **state)
{
    _cleanup_(buf_deinit) Buf buf = BUF_NULL;
    ChannelFrame frame;

    append_frame(&buf, "first");
    append_frame(&buf, "");
    append_frame(&buf, "third");
    assert_memory_equal(buf_head(&buf), "\0\0\0\5first\0\0\0\0\0\0\0\5third", 22);
    assert_int_equal(channel_next(&buf, 5, &frame), 1);
    assert_frame(&frame, "first");
    buf_consume(&buf, frame.used);
    assert_int_equal(channel_next(&buf, 5, &frame), 1);
    assert_frame(&frame, "");
    buf_consume(&buf, frame.used);
    assert_int_equal(channel_next(&buf, 5, &frame), 1);
    assert_frame(&frame, "third");
    buf_consume(&buf, frame.used);
    assert_int_equal(channel_next(&buf, 5, &frame), 0);
}

static void test_every_prefix_waits(void **state)
{
    _cleanup_(buf_deinit) Buf whole = BUF_NULL;
    ChannelFrame frame;

    append_frame(&whole, "abc");
    for (size_t n = 0; n < whole.size; n++) {
        Buf part = whole;

        part.size = n;
        assert_int_equal(channel_next(&part, 100, &frame), 0);
    }
}

static void test_too_large_is_refused_by_its_header(void **state)
{
    _cleanup_(buf_deinit) Buf buf = BUF_NULL;
    ChannelFrame frame;

    buf_append(&buf, "\0\0\0\6", 4);
    assert_int_equal(channel_next(&buf, 5, &frame), -EMSGSIZE);
    assert_int_equal(channel_next(&buf, 6, &frame), 0);
}

static void test_abort_takes_back(void **state)
{
    _cleanup_(buf_deinit) Buf buf = BUF_NULL;
    size_t mark;

    append_frame(&buf, "kept");
    assert_int_equal(channel_frame_begin(&buf, &mark), 0);
    buf_append(&buf, "dropped", 7);
    channel_frame_abort(&buf, mark);
    assert_int_equal(buf.size, 8);
}

static void test_descriptors_come_with_their_message(void **state)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL, in = BUF_NULL;
    int sockets[2], pipes[2], fds[CHANNEL_FDS];
    char byte;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    append_frame(&out, "plain");
    assert_int_equal(channel_send(sockets[0], &out, NULL), 1);
    append_frame(&out, "with");
    assert_int_equal(channel_send(sockets[0], &out, (int[]){pipes[1], pipes[0]}), 1);
    assert_int_equal(out.size, 0);

    assert_int_equal(channel_read_message(sockets[1], &in, fds), 0);
    assert_memory_equal(buf_head(&in), "plain", 5);
    assert_int_equal(fds[0], -1);
    assert_int_equal(fds[1], -1);
    assert_int_equal(channel_read_message(sockets[1], &in, fds), 0);
    assert_int_equal(in.size, 4);
    assert_memory_equal(buf_head(&in), "with", 4);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(fds[0], "x", 1), 1);
    assert_int_equal(read(fds[1], &byte, 1), 1);

    close(sockets[0]);
    assert_int_equal(channel_read_message(sockets[1], &in, fds), -EPIPE);
    for (int i = 0; i < 2; i++) {
        close(fds[i]);
        close(pipes[i]);
    }
    close(sockets[1]);
}

static void test_a_full_socket_takes_the_rest_later(void **state)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL, in = BUF_NULL;
    int sockets[2];
    size_t mark, size = 4u << 20;
    ChannelFrame frame;
    int r;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    channel_frame_begin(&out, &mark);
    memset(buf_reserve(&out, size), 'z', size);
    buf_commit(&out, size);
    channel_frame_end(&out, mark);
    assert_int_equal(channel_send(sockets[0], &out, NULL), 0);
    assert_int_equal(channel_send(sockets[0], &out, NULL), -EAGAIN);
    do {
        while (buf_read_fd(&in, sockets[1], 1 << 16) > 0)
            ;
        r = channel_send(sockets[0], &out, NULL);
    } while (r == 0);
    assert_int_equal(r, 1);
    while (buf_read_fd(&in, sockets[1], 1 << 16) > 0)
        ;
    assert_int_equal(channel_next(&in, LIMIT_GUEST_FRAME, &frame), 1);
    assert_int_equal(frame.size, size);
    close(sockets[0]);
    close(sockets[1]);
}

static void test_reader_refuses_too_much(void **state)
{
    _cleanup_(buf_deinit) Buf in = BUF_NULL;
    int sockets[2], fds[CHANNEL_FDS];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(write(sockets[0], "\xff\xff\xff\xff", 4), 4);
    assert_int_equal(channel_read_message(sockets[1], &in, fds), -EMSGSIZE);
    close(sockets[0]);
    close(sockets[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_follow_each_other),
        cmocka_unit_test(test_every_prefix_waits),
        cmocka_unit_test(test_too_large_is_refused_by_its_header),
        cmocka_unit_test(test_abort_takes_back),
        cmocka_unit_test(test_descriptors_come_with_their_message),
        cmocka_unit_test(test_a_full_socket_takes_the_rest_later),
        cmocka_unit_test(test_reader_refuses_too_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
