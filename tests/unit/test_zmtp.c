#include <errno.h>
#include <string.h>

#include "proto/zmtp.h"
#include "tests/support/cmocka.h"

#define MAX_FRAME 1000

static const char greeting[64] = {(char)0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, 'N', 'U', 'L', 'L'};

/* Literals end in a NUL that is not sent. */
#define READY_ROUTER "\x04\x29\5READY\13Socket-Type\0\0\0\6ROUTER\10Identity\0\0\0\0"

static struct {
    Zmtp zmtp;
    Buf in, out;
    ZmtpFrame frame;
} t;

static int tear_down(void **state)
{
    buf_deinit(&t.in);
    buf_deinit(&t.out);
    return 0;
}

static int set_up(void **state)
{
    return zmtp_init(&t.zmtp, ZMTP_DEALER, MAX_FRAME, &t.out);
}

static int feed(const char *bytes, size_t size)
{
    assert_int_equal(buf_append(&t.in, bytes, size), 0);
    return zmtp_next(&t.zmtp, &t.in, &t.out, &t.frame);
}

#define FEED(literal) feed(literal, sizeof(literal) - 1)

static int set_up_ready(void **state)
{
    set_up(NULL);
    assert_int_equal(feed(greeting, sizeof(greeting)), 0);
    assert_int_equal(FEED(READY_ROUTER), 0);
    assert_int_equal(t.zmtp.state, ZMTP_READY);
    buf_clear(&t.out);
    return 0;
}

static void stays_failed(void)
{
    assert_int_equal(t.zmtp.state, ZMTP_FAILED);
    assert_int_equal(zmtp_next(&t.zmtp, &t.in, &t.out, &t.frame), -EPROTO);
}

#define assert_refused(call, error)                                                                          \
    do {                                                                                                     \
        assert_int_equal(call, error);                                                                       \
        stays_failed();                                                                                      \
    } while (0)

TEST_WITH(our_side_of_the_handshake, set_up, tear_down)
{
    static const char expected[] =
        "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" /* to as-server */
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        "\x04\x29\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0\0";
    size_t mark;

    assert_int_equal(t.out.size, 64);
    assert_int_equal(zmtp_next(&t.zmtp, &t.in, &t.out, &t.frame), 0);
    assert_int_equal(zmtp_frame_begin(&t.zmtp, &t.out, &mark), -ENOTCONN);
    assert_int_equal(feed(greeting, sizeof(greeting)), 0);
    assert_int_equal(t.zmtp.state, ZMTP_HANDSHAKE);
    assert_int_equal(t.out.size, sizeof(expected) - 1);
    assert_memory_equal(buf_head(&t.out), expected, sizeof(expected) - 1);
    assert_int_equal(zmtp_frame_begin(&t.zmtp, &t.out, &mark), -ENOTCONN);
    assert_int_equal(FEED(READY_ROUTER), 0);
    assert_int_equal(t.zmtp.state, ZMTP_READY);
    assert_int_equal(t.out.size, sizeof(expected) - 1);
    assert_int_equal(t.in.size, 0);
}

/* However the bytes are cut, the same messages come out. */
TEST_WITH(byte_by_byte, set_up, tear_down)
{
    static const char frames[] = READY_ROUTER "\0\2hi\2\0\0\0\0\0\0\0\5hello\0\0";
    static const char *const expected[] = {"hi", "hello", ""};
    size_t seen = 0;

    for (size_t i = 0; i < sizeof(greeting); i++)
        assert_int_equal(feed(greeting + i, 1), 0);
    for (size_t i = 0; i < sizeof(frames) - 1; i++) {
        if (feed(frames + i, 1) == 1) {
            assert_true(seen < ARRAY_SIZE(expected));
            assert_int_equal(t.frame.size, strlen(expected[seen]));
            assert_memory_equal(t.frame.data, expected[seen], t.frame.size);
            buf_consume(&t.in, t.frame.used);
            seen++;
        }
    }
    assert_int_equal(seen, 3);
    assert_int_equal(t.in.size, 0);
}

TEST_WITH(all_at_once, set_up, tear_down)
{
    static const char frames[] = READY_ROUTER "\0\2hi\4\5\4NOPE\0\3you";

    buf_append(&t.in, greeting, sizeof(greeting));
    assert_int_equal(FEED(frames), 1);
    assert_int_equal(t.frame.size, 2);
    buf_consume(&t.in, t.frame.used);
    assert_int_equal(zmtp_next(&t.zmtp, &t.in, &t.out, &t.frame), 1);
    assert_memory_equal(t.frame.data, "you", 3);
    /* Until it is consumed it stays the next message. */
    assert_int_equal(zmtp_next(&t.zmtp, &t.in, &t.out, &t.frame), 1);
    assert_memory_equal(t.frame.data, "you", 3);
    buf_consume(&t.in, t.frame.used);
    assert_int_equal(zmtp_next(&t.zmtp, &t.in, &t.out, &t.frame), 0);
}

TEST_WITH(foreign_greetings_are_refused, NULL, tear_down)
{
    static const struct {
        size_t at;
        char byte;
    } changes[] = {{0, 'H'}, {9, 0x7e}, {10, 2}, {10, 1}, {12, 'P'}, {16, 'X'}, {31, 'X'}};

    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        char changed[64];

        memcpy(changed, greeting, sizeof(changed));
        changed[changes[i].at] = changes[i].byte;
        set_up(NULL);
        assert_refused(feed(changed, sizeof(changed)), -EPROTO);
        tear_down(NULL);
    }
    set_up(NULL);
    assert_refused(FEED("H"), -EPROTO); /* an HTTP server, say, need not send 64 bytes */
}

TEST_WITH(later_minor_and_major_versions_are_taken, set_up, tear_down)
{
    char later[64];

    memcpy(later, greeting, sizeof(later));
    later[10] = 4;
    assert_int_equal(feed(later, sizeof(later)), 0);
    assert_int_equal(t.zmtp.state, ZMTP_HANDSHAKE);
}

TEST_WITH(bad_handshakes_are_refused, NULL, tear_down)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
#define CASE(literal) {literal, sizeof(literal) - 1}
        CASE("\0\2hi"), /* a message before READY */
        CASE("\1\2hi"),
        CASE("\4\0"), /* a command without a name */
        CASE("\4\3\5RE"),
        CASE("\4\6\5ERROR"),
        CASE("\4\7\5ERROR\0"),
        CASE("\4\6\5HELLO"),
        CASE("\4\6\5READY"), /* no Socket-Type */
        CASE("\4\x1a\5READY\13Socket-Type\0\0\0\4PAIR"),
        CASE("\4\x1c\5READY\13Socket-Type\0\0\0\6DEALER"),
        CASE("\4\x1c\5READY\13Socket-Type\0\0\0\7ROUTER"), /* value cut off */
        CASE("\4\x1c\5READY\13Socket-Type\xff\xff\xff\xffROUTER"),
        CASE("\4\x1c\5READY\xffSocket-Type\0\0\0\6ROUTER"), /* name cut off */
        CASE("\4\x08\5READY\1"
             "a"),
#undef CASE
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        set_up(NULL);
        assert_int_equal(feed(greeting, sizeof(greeting)), 0);
        assert_refused(feed(cases[i].bytes, cases[i].size), -EPROTO);
        tear_down(NULL);
    }
    set_up(NULL);
    assert_int_equal(feed(greeting, sizeof(greeting)), 0);
    assert_refused(FEED("\6\0\0\0\0\0\0\x10\0"), -EMSGSIZE);
}

TEST_WITH(long_form_and_other_case_of_ready, set_up, tear_down)
{
    assert_int_equal(feed(greeting, sizeof(greeting)), 0);
    assert_int_equal(FEED("\6\0\0\0\0\0\0\0\x23\5READY\1x\0\0\0\1y\13SOCKET-type\0\0\0\6ROUTER"), 0);
    assert_int_equal(t.zmtp.state, ZMTP_READY);
}

TEST_WITH(frames_up_to_the_limit, set_up_ready, tear_down)
{
    char payload[MAX_FRAME] = {0};

    assert_int_equal(FEED("\2\0\0\0\0\0\0\3\xe8"), 0);
    assert_int_equal(feed(payload, MAX_FRAME - 1), 0);
    assert_int_equal(feed(payload, 1), 1);
    assert_int_equal(t.frame.size, MAX_FRAME);
    buf_consume(&t.in, t.frame.used);
    assert_refused(FEED("\2\0\0\0\0\0\0\3\xe9"), -EMSGSIZE);
}

TEST_WITH(huge_frames_are_refused_from_the_header, set_up_ready, tear_down)
{
    assert_refused(FEED("\2\xff\xff\xff\xff\xff\xff\xff\xff"), -EMSGSIZE);
}

TEST_WITH(multipart_is_refused, set_up_ready, tear_down)
{
    assert_refused(FEED("\1"), -EPROTO);
}

TEST_WITH(long_multipart_is_refused, set_up_ready, tear_down)
{
    assert_refused(FEED("\3\0\0\0\0\0\0\0\0"), -EPROTO);
}

TEST_WITH(reserved_bits_are_refused, set_up_ready, tear_down)
{
    assert_refused(FEED("\x08\0"), -EPROTO);
}

TEST_WITH(command_with_more_is_refused, set_up_ready, tear_down)
{
    assert_refused(FEED("\5\6\5READY"), -EPROTO);
}

TEST_WITH(ping_gets_pong, set_up_ready, tear_down)
{
    assert_int_equal(FEED("\4\12\4PING\0\x64"
                          "abc\4\7\4PING\0\0"),
                     0);
    assert_int_equal(t.out.size, 10 + 7);
    assert_memory_equal(buf_head(&t.out), "\4\10\4PONGabc\4\5\4PONG", 17);
    assert_refused(FEED("\4\6\4PING\0"), -EPROTO); /* no time to live */
}

TEST_WITH(long_ping_context_is_refused, set_up_ready, tear_down)
{
    assert_refused(FEED("\4\x18\4PING\0\0"
                        "0123456789abcdefg"),
                   -EPROTO);
}

TEST_WITH(later_commands_are_ignored, set_up_ready, tear_down)
{
    assert_int_equal(FEED("\4\6\5READY\4\11\4JUNKabcd\4\1\0\0\2hi"), 1);
    assert_int_equal(t.frame.size, 2);
    assert_int_equal(t.out.size, 0);
    buf_consume(&t.in, t.frame.used);
    assert_refused(FEED("\6\0\0\0\0\0\0\x10\0"), -EMSGSIZE);
}

TEST_WITH(frames_are_written_in_the_long_form, set_up_ready, tear_down)
{
    size_t first, second, third;

    assert_int_equal(zmtp_frame_begin(&t.zmtp, &t.out, &first), 0);
    zmtp_frame_end(&t.out, first);
    assert_int_equal(zmtp_frame_begin(&t.zmtp, &t.out, &second), 0);
    buf_append(&t.out, "hello", 5);
    zmtp_frame_end(&t.out, second);
    assert_int_equal(zmtp_frame_begin(&t.zmtp, &t.out, &third), 0);
    buf_append(&t.out, "never mind", 10);
    t.out.size = third;
    assert_int_equal(t.out.size, 9 + 14);
    assert_memory_equal(buf_head(&t.out), "\2\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\5hello", 23);
}

TEST_WITH(a_full_buffer_is_an_error, set_up_ready, tear_down)
{
    size_t mark = 4711;

    t.out.limit = t.out.size + 8;
    assert_int_equal(zmtp_frame_begin(&t.zmtp, &t.out, &mark), -ENOBUFS);
    assert_int_equal(mark, 4711);
    assert_refused(FEED("\4\12\4PING\0\x64"
                        "abc"),
                   -ENOBUFS);
}
