/* guest/channel.h: both ends, over a real socket pair. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "guest/channel.h"
#include "proto/limits.h"
#include "tests/support/cmocka.h"

/* An interpreter has its reader as long as it lives. */
static void reader_deinit(ChannelReader *reader)
{
    channel_reader_clear(reader);
    buf_deinit(&reader->in);
}

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

TEST(test_frames_follow_each_other)
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

TEST(test_every_prefix_waits)
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

TEST(test_too_large_is_refused_by_its_header)
{
    _cleanup_(buf_deinit) Buf buf = BUF_NULL;
    ChannelFrame frame;

    buf_append(&buf, "\0\0\0\6", 4);
    assert_int_equal(channel_next(&buf, 5, &frame), -EMSGSIZE);
    assert_int_equal(channel_next(&buf, 6, &frame), 0);
}

TEST(test_abort_takes_back)
{
    _cleanup_(buf_deinit) Buf buf = BUF_NULL;
    size_t mark;

    append_frame(&buf, "kept");
    assert_int_equal(channel_frame_begin(&buf, &mark), 0);
    buf_append(&buf, "dropped", 7);
    channel_frame_abort(&buf, mark);
    assert_int_equal(buf.size, 8);
}

typedef struct Ends {
    int writer, reader;
} Ends;

static Ends ends_open(void)
{
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    return (Ends){sockets[0], sockets[1]};
}

static void ends_close(Ends ends)
{
    close(ends.writer);
    close(ends.reader);
}

/* A descriptor whose number was free before is what the next open() gives. */
static int next_fd(void)
{
    int fd = dup(STDERR_FILENO);

    close(fd);
    return fd;
}

static void assert_same_pipe(int writer, int reader)
{
    char byte;

    assert_int_equal(write(writer, "x", 1), 1);
    assert_int_equal(read(reader, &byte, 1), 1);
}

TEST(test_descriptors_come_with_their_message)
{
    _cleanup_(reader_deinit) ChannelReader in = CHANNEL_READER_NULL;
    _cleanup_(buf_deinit) Buf out = BUF_NULL;
    int pipes[2], fds[CHANNEL_FDS];
    Ends ends = ends_open();
    ChannelFrame frame;

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    for (size_t n = 0; n <= CHANNEL_FDS; n++) {
        append_frame(&out, "text");
        assert_int_equal(channel_send(ends.writer, &out, (int[]){pipes[1], pipes[0], pipes[1], pipes[0]}, n),
                         1);
        assert_int_equal(out.size, 0);
    }
    for (size_t n = 0; n <= CHANNEL_FDS; n++) {
        assert_int_equal(channel_reader_next(&in, ends.reader, &frame, fds), 0);
        assert_frame(&frame, "text");
        for (size_t i = 0; i < CHANNEL_FDS; i++)
            assert_int_equal(fds[i] >= 0, i < n);
        if (n >= 2)
            assert_same_pipe(fds[0], fds[1]);
        if (n >= 3)
            assert_same_pipe(fds[2], fds[1]);
        if (n >= 4)
            assert_same_pipe(fds[2], fds[3]);
        for (size_t i = 0; i < n; i++) {
            assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
            close(fds[i]);
        }
    }
    close(pipes[0]);
    close(pipes[1]);
    ends_close(ends);
}

/* Sends a message, or a part of one, with `n` duplicates of standard error. */
static void send_bytes(Ends ends, const void *bytes, size_t size, size_t n)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL;

    buf_append(&out, bytes, size);
    assert_int_equal(channel_send(ends.writer, &out, (int[]){2, 2, 2, 2}, n), 1);
}

static void send_text(Ends ends, const char *text, size_t n)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL;

    append_frame(&out, text);
    send_bytes(ends, buf_head(&out), out.size, n);
}

/* The next message is `text` and comes with `n` descriptors. */
static void assert_next(ChannelReader *reader, Ends ends, const char *text, size_t n)
{
    int fds[CHANNEL_FDS];
    ChannelFrame frame;

    assert_int_equal(channel_reader_next(reader, ends.reader, &frame, fds), 0);
    assert_frame(&frame, text);
    for (size_t i = 0; i < CHANNEL_FDS; i++) {
        assert_int_equal(fds[i] >= 0, i < n);
        close_fd(&fds[i]);
    }
}

TEST(test_small_messages_are_read_at_once)
{
    _cleanup_(reader_deinit) ChannelReader reader = CHANNEL_READER_NULL;
    Ends ends = ends_open();
    int fds[CHANNEL_FDS];
    ChannelFrame frame;

    send_text(ends, "first", 0);
    send_text(ends, "", 0);
    send_text(ends, "third", 0);
    assert_int_equal(channel_reader_take(&reader, &frame, fds), 0);
    assert_int_equal(channel_reader_fill(&reader, ends.reader), 0);
    ends_close(ends);
    assert_next(&reader, ends, "first", 0);
    assert_next(&reader, ends, "", 0);
    assert_next(&reader, ends, "third", 0);
    assert_int_equal(channel_reader_take(&reader, &frame, fds), 0);
}

TEST(test_descriptors_stay_with_their_message)
{
    _cleanup_(reader_deinit) ChannelReader reader = CHANNEL_READER_NULL;
    Ends ends = ends_open();
    int before = next_fd();

    send_text(ends, "a", 0);
    send_text(ends, "bb", 0);
    send_text(ends, "ccc", 2);
    send_text(ends, "dddd", 1);
    send_text(ends, "e", 0);
    send_text(ends, "f", 3);
    assert_next(&reader, ends, "a", 0);
    assert_next(&reader, ends, "bb", 0);
    assert_next(&reader, ends, "ccc", 2);
    assert_next(&reader, ends, "dddd", 1);
    assert_next(&reader, ends, "e", 0);
    assert_next(&reader, ends, "f", 3);
    assert_int_equal(next_fd(), before);
    ends_close(ends);
}

TEST(test_descriptors_of_messages_that_come_in_pieces)
{
    _cleanup_(reader_deinit) ChannelReader reader = CHANNEL_READER_NULL;
    Ends ends = ends_open();
    int before = next_fd();

    for (size_t cut = 1; cut < 8; cut++) {
        send_text(ends, "before", 0);
        send_bytes(ends, "\0\0\0\4text", cut, 2);
        assert_next(&reader, ends, "before", 0);
        send_bytes(ends, "\0\0\0\4text" + cut, 8 - cut, 0);
        send_text(ends, "behind", 1);
        assert_next(&reader, ends, "text", 2);
        assert_next(&reader, ends, "behind", 1);
    }
    assert_int_equal(next_fd(), before);
    ends_close(ends);
}

TEST(test_a_large_message_among_small_ones)
{
    _cleanup_(reader_deinit) ChannelReader reader = CHANNEL_READER_NULL;
    char *large = test_malloc(100001);
    Ends ends = ends_open();

    memset(large, 'x', 100000);
    large[100000] = '\0';
    send_text(ends, "before", 0);
    send_text(ends, large, 1);
    send_text(ends, "behind", 2);
    assert_next(&reader, ends, "before", 0);
    assert_next(&reader, ends, large, 1);
    assert_next(&reader, ends, "behind", 2);
    test_free(large);
    ends_close(ends);
}

TEST(test_a_reader_forgets)
{
    _cleanup_(reader_deinit) ChannelReader reader = CHANNEL_READER_NULL;
    Ends ends = ends_open();
    int before = next_fd();

    send_text(ends, "old", 0);
    send_text(ends, "of no use", 3);
    assert_next(&reader, ends, "old", 0);
    channel_reader_clear(&reader);
    assert_int_equal(next_fd(), before);
    send_text(ends, "new", 1);
    assert_next(&reader, ends, "new", 1);
    ends_close(ends);
}

TEST(test_too_many_descriptors_are_refused)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL;
    Ends ends = ends_open();

    append_frame(&out, "text");
    assert_int_equal(channel_send(ends.writer, &out, (int[]){0, 1, 2, 0, 1}, 5), -EINVAL);
    assert_int_equal(out.size, 8);
    ends_close(ends);
}

TEST(test_the_end_is_told)
{
    _cleanup_(reader_deinit) ChannelReader reader = CHANNEL_READER_NULL;
    _cleanup_(buf_deinit) Buf in = BUF_NULL;
    int fds[CHANNEL_FDS];
    Ends ends = ends_open();
    pid_t sender = -1;
    ChannelFrame frame;

    close(ends.writer);
    assert_int_equal(channel_reader_next(&reader, ends.reader, &frame, fds), -EPIPE);
    assert_int_equal(channel_read(ends.reader, &in, 100, &sender, NULL), 0);
    close(ends.reader);
}

TEST(test_hostile_descriptors_are_not_kept)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL, in = BUF_NULL;
    Ends ends = ends_open();
    pid_t sender = -1;
    int before = next_fd();
    ChannelFrame frame;

    append_frame(&out, "text");
    assert_int_equal(channel_send(ends.writer, &out, (int[]){0, 1, 2}, 3), 1);
    assert_int_equal(channel_read(ends.reader, &in, 5, &sender, NULL), 5);
    assert_int_equal(next_fd(), before);
    assert_int_equal(sender, 0);
    assert_int_equal(channel_read(ends.reader, &in, 100, &sender, NULL), 3);
    assert_int_equal(channel_next(&in, 100, &frame), 1);
    assert_frame(&frame, "text");
    ends_close(ends);
}

TEST(test_one_descriptor_is_kept_where_it_is_asked_for)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL, in = BUF_NULL;
    Ends ends = ends_open();
    pid_t sender;
    int before = next_fd(), fd;

    append_frame(&out, "text");
    assert_int_equal(channel_send(ends.writer, &out, (int[]){0, 1, 2}, 3), 1);
    assert_int_equal(channel_read(ends.reader, &in, 5, &sender, &fd), 5);
    assert_int_equal(fd, before);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    assert_int_equal(channel_read(ends.reader, &in, 100, &sender, &fd), 3);
    assert_int_equal(fd, -1);
    assert_int_equal(next_fd(), before);
    ends_close(ends);
}

static void send_from_child(Ends ends, Buf *out)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        _exit(channel_send(ends.writer, out, (int[]){0, 1, 2}, 3) != 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(test_the_kernel_names_the_sender)
{
    _cleanup_(buf_deinit) Buf out = BUF_NULL, in = BUF_NULL;
    Ends ends = ends_open();
    pid_t first = 0, second = 0;
    int before = next_fd();

    assert_int_equal(setsockopt(ends.reader, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)), 0);
    append_frame(&out, "text");
    send_from_child(ends, &out);
    assert_int_equal(channel_send(ends.writer, &out, NULL, 0), 1);
    /* What two processes sent is never read as one. */
    assert_int_equal(channel_read(ends.reader, &in, 100, &first, NULL), 8);
    assert_int_equal(channel_read(ends.reader, &in, 100, &second, NULL), 8);
    assert_int_not_equal(first, 0);
    assert_int_not_equal(first, getpid());
    assert_int_equal(second, getpid());
    assert_int_equal(next_fd(), before);
    ends_close(ends);
}

TEST(test_a_full_buffer_is_told)
{
    _cleanup_(buf_deinit) Buf in = {.limit = 4};
    Ends ends = ends_open();
    pid_t sender;

    assert_int_equal(write(ends.writer, "123456", 6), 6);
    assert_int_equal(channel_read(ends.reader, &in, 100, &sender, NULL), 4);
    assert_int_equal(channel_read(ends.reader, &in, 100, &sender, NULL), -ENOBUFS);
    ends_close(ends);
}

TEST(test_a_full_socket_takes_the_rest_later)
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
    assert_int_equal(channel_send(sockets[0], &out, NULL, 0), 0);
    assert_int_equal(channel_send(sockets[0], &out, NULL, 0), -EAGAIN);
    do {
        while (buf_read_fd(&in, sockets[1], 1 << 16) > 0)
            ;
        r = channel_send(sockets[0], &out, NULL, 0);
    } while (r == 0);
    assert_int_equal(r, 1);
    while (buf_read_fd(&in, sockets[1], 1 << 16) > 0)
        ;
    assert_int_equal(channel_next(&in, LIMIT_GUEST_FRAME, &frame), 1);
    assert_int_equal(frame.size, size);
    close(sockets[0]);
    close(sockets[1]);
}

TEST(test_reader_refuses_too_much)
{
    _cleanup_(reader_deinit) ChannelReader in = CHANNEL_READER_NULL;
    int sockets[2], fds[CHANNEL_FDS];
    ChannelFrame frame;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    assert_int_equal(write(sockets[0], "\xff\xff\xff\xff", 4), 4);
    assert_int_equal(channel_reader_next(&in, sockets[1], &frame, fds), -EMSGSIZE);
    close(sockets[0]);
    close(sockets[1]);
}
