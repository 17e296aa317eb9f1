/* Conversations of peers with a Listener. */
#include "tests/unit/listener_peers.h"

TEST_WITH(a_message_and_its_answer, set_up, tear_down)
{
    char said[256];
    int fd = dial();

    SAY(fd, GREETING);
    SAY(fd, READY_DEALER);
    assert_int_equal(recv(fd, said, sizeof(said), 0), SAID_FIRST);
    assert_memory_equal(said + 64, READY_ROUTER, sizeof(READY_ROUTER) - 1);
    SAY(fd, "\0\5hello");
    assert_int_equal(t.messages, 1);
    assert_text("hello");
    assert_int_equal(t.credentials.pid, getpid());
    assert_int_equal(t.credentials.uid, getuid());
    assert_int_equal(listener_send(t.listener, t.last, "you", 3), 0);
    turn(SETTLE);
    assert_int_equal(recv(fd, said, sizeof(said), 0), 12);
    assert_memory_equal(said, "\2\0\0\0\0\0\0\0\3you", 12);
}

TEST_WITH(byte_by_byte, set_up, tear_down)
{
    static const char all[] = GREETING READY_DEALER "\0\2hi\2\0\0\0\0\0\0\0\5hello\0\0";
    int fd = dial();

    for (size_t i = 0; i < sizeof(all) - 1; i++)
        say(fd, all + i, 1);
    assert_int_equal(t.messages, 3);
    assert_int_equal(t.size, 0);
}

TEST_WITH(all_that_comes_at_once_is_handled_and_answered, set_up, tear_down)
{
    static const char all[] = GREETING READY_DEALER "\0\3one\0\3two\4\11\4PING\0\0xy\0\5three";
    static const char answers[] = "\2\0\0\0\0\0\0\0\3one\2\0\0\0\0\0\0\0\3two\4\7\4PONGxy"
                                  "\2\0\0\0\0\0\0\0\5three";
    char said[512];
    int fd = dial();

    t.echo = true;
    say(fd, all, sizeof(all) - 1);
    assert_int_equal(t.messages, 3);
    assert_int_equal(recv(fd, said, sizeof(said), 0), SAID_FIRST + sizeof(answers) - 1);
    assert_memory_equal(said + SAID_FIRST, answers, sizeof(answers) - 1);
}

TEST_WITH(strangers_are_dropped, set_up, tear_down)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
#define CASE(literal) {literal, sizeof(literal) - 1}
        CASE("GET / HTTP/1.1\r\n\r\n"),
        CASE("\xff\0\0\0\0\0\0\0\1\x7f\1"),                 /* ZMTP 2 */
        CASE(GREETING READY_ROUTER),                        /* two servers */
        CASE(GREETING "\0\2hi"),                            /* a message before READY */
        CASE(GREETING "\4\xff"),                            /* ends, and nothing follows */
        CASE(GREETING "\6\0\0\0\0\0\0\x10\0"),              /* READY of 4 KiB */
        CASE(GREETING READY_DEALER "\x80"),                 /* a reserved bit */
        CASE(GREETING READY_DEALER "\5\6\5READY"),          /* a command of several frames */
        CASE(GREETING READY_DEALER "\2\0\0\0\0\0\0\3\xe9"), /* a byte too large */
        CASE(GREETING READY_DEALER "\3\xff\xff\xff\xff\xff\xff\xff\xff"),
        CASE(GREETING READY_DEALER "\1\1a\2\xff\xff\xff\xff\xff\xff\xff\xff"),
        CASE(GREETING READY_DEALER "\4\1\5"),
#undef CASE
    };
    int good = dial_ready();

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int fd = dial();

        say(fd, cases[i].bytes, cases[i].size);
        if (i == 4)
            shutdown(fd, SHUT_WR);
        turn(SETTLE);
        assert_true(is_closed(fd));
        assert_int_equal(t.gone, i + 1);
        hang_up(fd);
    }
    assert_int_equal(t.messages, 0);
    SAY(good, "\0\2hi");
    assert_text("hi");
}

TEST_WITH(multipart_is_told_once_and_the_next_message_comes, set_up, tear_down)
{
    int fd = dial_ready();

    SAY(fd, "\1\1a\1\1b\3\0\0\0\0\0\0\0\1c");
    assert_int_equal(t.multiparts, 0);
    SAY(fd, "\0\1d\0\2hi");
    assert_int_equal(t.multiparts, 1);
    assert_int_equal(t.messages, 1);
    assert_text("hi");
    SAY(fd, "\1\0\1\0\1\0"); /* and one that never ends */
    hang_up(fd);
    turn(SETTLE);
    assert_int_equal(t.multiparts, 1);
    assert_int_equal(t.gone, 1);
}

TEST_WITH(a_gone_peer_cannot_be_reached, set_up, tear_down)
{
    Peer first;
    int fd = dial_ready();

    SAY(fd, "\0\2hi");
    first = t.last;
    assert_int_not_equal(first, 0);
    hang_up(fd);
    turn(SETTLE);
    assert_int_equal(t.gone, 1);
    assert_int_equal(t.last_gone, first);
    assert_int_equal(listener_send(t.listener, first, "x", 1), -EHOSTUNREACH);
    listener_drop(t.listener, first);
    assert_int_equal(listener_send(t.listener, 0, "x", 1), -EHOSTUNREACH);

    fd = dial_ready();
    SAY(fd, "\0\2hi");
    assert_int_not_equal(t.last, first);
    assert_int_equal(listener_send(t.listener, first, "x", 1), -EHOSTUNREACH);
}

TEST_WITH(its_last_message_is_heard, set_up, tear_down)
{
    int fd = dial();

    assert_int_equal(send(fd, GREETING READY_DEALER "\0\3bye", 64 + 43 + 5, 0), 64 + 43 + 5);
    hang_up(fd);
    turn(SETTLE);
    assert_int_equal(t.messages, 1);
    assert_text("bye");
    assert_int_equal(t.gone, 1);
}

TEST_WITH(the_listener_may_go_in_a_callback, set_up, tear_down)
{
    int fd = dial_ready(), other = dial_ready();

    t.free_in_message = true;
    SAY(fd, "\0\5hello\0\5again");
    assert_int_equal(t.messages, 1);
    assert_text("hello");
    assert_int_equal(t.gone, 0);
    assert_true(is_closed(fd));
    assert_true(is_closed(other));
    assert_int_equal(access(t.path, F_OK), -1);
}

TEST_WITH(a_peer_may_be_dropped_in_a_callback, set_up, tear_down)
{
    int fd = dial_ready();

    t.drop_in_message = true;
    SAY(fd, "\0\5hello\0\5again");
    assert_int_equal(t.messages, 1);
    assert_int_equal(t.gone, 1);
    assert_true(is_closed(fd));
    assert_int_equal(listener_send(t.listener, t.last, "x", 1), -EHOSTUNREACH);
}

TEST_WITH(what_waits_is_sent_at_the_end, set_up, tear_down)
{
    char said[64];
    int fd = dial_ready();

    SAY(fd, "\0\2hi");
    assert_int_equal(listener_send(t.listener, t.last, "bye", 3), 0);
    t.listener = listener_free(t.listener);
    assert_int_equal(recv(fd, said, sizeof(said), 0), 12);
    assert_true(is_closed(fd));
}

TEST_WITH(a_socket_that_answers_is_another_s, set_up, tear_down)
{
    Listener *second = NULL;

    assert_int_equal(listener_new(&second, t.loop, t.path, &limits, &events, NULL), -EADDRINUSE);
    assert_null(second);
    assert_true(dial() >= 0);
}

TEST_WITH(what_nobody_listens_on_is_taken_over, set_up, tear_down)
{
    char left[80];

    snprintf(left, sizeof(left), "%s.left", t.path);
    assert_int_equal(rename(t.path, left), 0); /* so that it stays when its listener goes */
    t.listener = listener_free(t.listener);
    assert_int_equal(rename(left, t.path), 0);
    assert_int_equal(listener_new(&t.listener, t.loop, t.path, &limits, &events, NULL), 0);
    assert_true(dial() >= 0);
    t.listener = listener_free(t.listener);
    assert_int_equal(access(t.path, F_OK), -1);
}

TEST_WITH(the_file_of_another_stays, set_up, tear_down)
{
    Listener *second;

    assert_int_equal(unlink(t.path), 0);
    assert_int_equal(listener_new(&second, t.loop, t.path, &limits, &events, NULL), 0);
    t.listener = listener_free(t.listener);
    assert_int_equal(access(t.path, F_OK), 0);
    listener_free(second);
    assert_int_equal(access(t.path, F_OK), -1);
}
