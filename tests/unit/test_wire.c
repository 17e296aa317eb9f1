#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/wire.h"
#include "tests/support/cmocka.h"

#define BYTES(literal) (literal), sizeof(literal) - 1
#define CHECK(literal) wire_check(literal, sizeof(literal) - 1)

TEST(sound_objects)
{
    assert_int_equal(CHECK("\x00"), 0);
    assert_int_equal(CHECK("\xff"), 0);
    assert_int_equal(CHECK("\xc0"), 0);
    assert_int_equal(CHECK("\xc3"), 0);
    assert_int_equal(CHECK("\xca\x3f\x80\x00\x00"), 0);
    assert_int_equal(CHECK("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), 0);
    assert_int_equal(CHECK("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), 0);
    assert_int_equal(CHECK("\xd3\x80\x00\x00\x00\x00\x00\x00\x00"), 0);
    assert_int_equal(CHECK("\xa3"
                           "abc"),
                     0);
    assert_int_equal(CHECK("\xd9\x03"
                           "abc"),
                     0);
    assert_int_equal(CHECK("\xda\x00\x03"
                           "abc"),
                     0);
    assert_int_equal(CHECK("\xdb\x00\x00\x00\x03"
                           "abc"),
                     0);
    assert_int_equal(CHECK("\xc4\x02\xff\xfe"), 0);
    assert_int_equal(CHECK("\xc5\x00\x02\xff\xfe"), 0);
    assert_int_equal(CHECK("\xc6\x00\x00\x00\x02\xff\xfe"), 0);
    assert_int_equal(CHECK("\x90"), 0);
    assert_int_equal(CHECK("\x80"), 0);
    assert_int_equal(CHECK("\xdd\x00\x00\x00\x00"), 0);
    assert_int_equal(CHECK("\x82\xa1"
                           "a\x91\x80\xa1"
                           "b\x93\x01\x02\xc4\x00"),
                     0);
    assert_int_equal(CHECK("\xdf\x00\x00\x00\x01\xa0\xc0"), 0);
    assert_int_equal(CHECK("\x82\xa1"
                           "a\x81\xa1"
                           "a\x01\xa1"
                           "b\x81\xa1"
                           "a\x02"),
                     0); /* not the same map */
}

/* Proves: security: forged answers */
TEST(unsound_objects)
{
    assert_int_equal(wire_check(NULL, 0), -EBADMSG);
    assert_int_equal(CHECK("\xc1"), -EBADMSG);
    assert_int_equal(CHECK("\x00\x00"), -EBADMSG); /* something after it */
    assert_int_equal(CHECK("\x91"), -EBADMSG);     /* cut off */
    assert_int_equal(CHECK("\xcb\x00"), -EBADMSG);
    assert_int_equal(CHECK("\xa2"
                           "a"),
                     -EBADMSG);
    assert_int_equal(CHECK("\xdb\xff\xff\xff\xff"
                           "a"),
                     -EBADMSG);
    assert_int_equal(CHECK("\xc6\xff\xff\xff\xff"
                           "a"),
                     -EBADMSG);
    assert_int_equal(CHECK("\xdd\xff\xff\xff\xff"), -EBADMSG); /* five bytes that claim 100 GB */
    assert_int_equal(CHECK("\xdf\xff\xff\xff\xff"), -EBADMSG);
    assert_int_equal(CHECK("\xdd\x00\x00\x00\x02\x00"), -EBADMSG);
    assert_int_equal(CHECK("\xdd\x00\x00"), -EBADMSG);
    assert_int_equal(CHECK("\xd4\x01\x00"), -EBADMSG); /* ext */
    assert_int_equal(CHECK("\xd8\x01"
                           "0123456789abcdef"),
                     -EBADMSG);
    assert_int_equal(CHECK("\xc7\x00\x01"), -EBADMSG);
    assert_int_equal(CHECK("\xc9\x00\x00\x00\x00\x01"), -EBADMSG);
    assert_int_equal(CHECK("\xa1\xff"), -EBADMSG); /* str that is not UTF-8 */
    assert_int_equal(CHECK("\xa3\xed\xa0\x80"), -EBADMSG);
    assert_int_equal(CHECK("\x81\x01\x01"), -EBADMSG); /* keys of other types */
    assert_int_equal(CHECK("\x81\xc0\x01"), -EBADMSG);
    assert_int_equal(CHECK("\x81\x90\x01"), -EBADMSG);
    assert_int_equal(CHECK("\x82\xa1"
                           "a\x01\xa1"
                           "a\x02"),
                     -EBADMSG); /* twice */
    assert_int_equal(CHECK("\x82\xa1"
                           "a\x01\xd9\x01"
                           "a\x02"),
                     -EBADMSG);
    assert_int_equal(CHECK("\x82\xa1"
                           "a\x01\xc4\x01"
                           "a\x02"),
                     -EBADMSG);
    assert_int_equal(CHECK("\x82\xa0\x01\xa0\x02"), -EBADMSG);
    assert_int_equal(CHECK("\x91\x83\xa1"
                           "a\x81\xa1"
                           "b\x01\xa1"
                           "c\x01\xa1"
                           "a\x02"),
                     -EBADMSG);
    assert_int_equal(CHECK("\x81\xa1"
                           "x\x82\xa1"
                           "a\x01\xa1"
                           "a\x01"),
                     -EBADMSG);
}

static void nested(Buf *buf, size_t depth)
{
    buf_clear(buf);
    for (size_t i = 0; i < depth; i++)
        buf_append(buf, i % 2 ? "\x91" : "\x81\xa0", i % 2 ? 1 : 2);
    buf_append(buf, "\xc0", 1);
}

TEST(depth_is_bounded)
{
    Buf buf = BUF_NULL;

    nested(&buf, LIMIT_DEPTH);
    assert_int_equal(wire_check(buf_head(&buf), buf.size), 0);
    nested(&buf, LIMIT_DEPTH + 1);
    assert_int_equal(wire_check(buf_head(&buf), buf.size), -EMSGSIZE);
    nested(&buf, 100000);
    assert_int_equal(wire_check(buf_head(&buf), buf.size), -EMSGSIZE);
    buf_deinit(&buf);
}

TEST(nodes_are_bounded)
{
    Buf buf = BUF_NULL;
    Writer w;

    writer_init(&w, &buf);
    write_array(&w, LIMIT_NODES - 1);
    for (size_t i = 1; i < LIMIT_NODES; i++)
        write_nil(&w);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(wire_check(buf_head(&buf), buf.size), 0);
    buf_clear(&buf);

    /* The same in a further array is one too many. */
    writer_init(&w, &buf);
    write_array(&w, 1);
    write_array(&w, LIMIT_NODES - 1);
    for (size_t i = 1; i < LIMIT_NODES; i++)
        write_nil(&w);
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(wire_check(buf_head(&buf), buf.size), -EMSGSIZE);
    buf_deinit(&buf);
}

/* A map of n keys of which number `twice` is called as the first is; SIZE_MAX: none. */
static int check_map(size_t n, size_t twice, bool descending)
{
    Buf buf = BUF_NULL;
    char key[32];
    Writer w;
    int r;

    writer_init(&w, &buf);
    write_map(&w, n);
    for (size_t i = 0; i < n; i++) {
        size_t number = i == twice ? 0 : i;
        snprintf(key, sizeof(key), "key %08zu", descending ? n - number : number);
        write_key(&w, key);
        write_nil(&w);
    }
    assert_int_equal(writer_finish(&w), 0);
    r = wire_check(buf_head(&buf), buf.size);
    buf_deinit(&buf);
    return r;
}

TEST(duplicate_keys_are_found)
{
    for (size_t n = 2; n < 70; n++) {
        assert_int_equal(check_map(n, SIZE_MAX, n % 2), 0);
        for (size_t twice = 1; twice < n; twice++)
            assert_int_equal(check_map(n, twice, n % 2), -EBADMSG);
    }
}

TEST(keys_are_bounded)
{
    assert_int_equal(check_map(LIMIT_KEYS, SIZE_MAX, false), 0);
    assert_int_equal(check_map(LIMIT_KEYS, SIZE_MAX, true), 0);
    assert_int_equal(check_map(LIMIT_KEYS, LIMIT_KEYS - 1, true), -EBADMSG);
    assert_int_equal(check_map(LIMIT_KEYS + 1, SIZE_MAX, false), -EMSGSIZE);
}

/* Envelope */

static int decode(Message *message, const char *bytes, size_t size, Problem *problem)
{
    *problem = PROBLEM_NULL;
    return message_decode(message, bytes, size, problem);
}

TEST(messages_are_decoded)
{
    static const char frame[] = "\x94\x01\x0b\xcd\x30\x39\x82\xa4"
                                "code\xa3x=1\xa7"
                                "timeout\x05";
    Message message;
    Problem problem;

    assert_int_equal(decode(&message, BYTES(frame), &problem), 0);
    assert_int_equal(message.kind, MSG_RUN);
    assert_int_equal(message.id, 12345);
    assert_int_equal(message.body.size, 2);
    const msgpack_object *code = map_find(&message.body, "code");
    assert_non_null(code);
    assert_ptr_equal(code->via.str.ptr, frame + 13); /* not copied */
    assert_ptr_equal(message.encoded.data, frame + 6);
    assert_int_equal(message.encoded.size, sizeof(frame) - 1 - 6);
    assert_int_equal(map_find(&message.body, "timeout")->via.u64, 5);
    assert_null(map_find(&message.body, "cod"));
    assert_null(map_find(&message.body, "codes"));
    message_deinit(&message);
    message_deinit(&message);
}

TEST(any_sound_encoding_of_the_envelope_will_do)
{
    Message message;
    Problem problem;

    assert_int_equal(
        decode(&message, BYTES("\xdc\x00\x04\xcc\x01\xcd\x00\x01\xcf\0\0\0\0\0\0\0\x09\xde\0\0"), &problem),
        0);
    assert_int_equal(message.kind, MSG_HELLO);
    assert_int_equal(message.id, 9);
    assert_int_equal(message.encoded.size, 3);
    assert_memory_equal(message.encoded.data, "\xde\0\0", 3);
    message_deinit(&message);
}

TEST(the_deepest_message_is_decoded)
{
    Buf buf = BUF_NULL, inner = BUF_NULL;
    Message message;
    Problem problem;

    nested(&inner, LIMIT_DEPTH - 2); /* the envelope and its body are two levels */
    buf_append(&buf, "\x94\x01\x01\x01\x81\xa1x", 7);
    buf_append(&buf, buf_head(&inner), inner.size);
    assert_int_equal(decode(&message, (char *)buf_head(&buf), buf.size, &problem), 0);
    message_deinit(&message);
    buf_deinit(&buf);
    buf_deinit(&inner);
}

TEST(unknown_kinds_are_let_through)
{
    Message message;
    Problem problem;

    assert_int_equal(decode(&message, BYTES("\x94\x01\xcd\x03\xe7\x01\x80"), &problem), 0);
    assert_int_equal(message.kind, 999);
    assert_string_equal(message_name(message.kind), "unknown");
    message_deinit(&message);
    assert_int_equal(
        decode(&message, BYTES("\x94\x01\xcf\x00\x00\x00\x01\x00\x00\x00\x0b\x07\x80"), &problem),
        -EPROTO); /* not RUN by truncation */
    assert_int_equal(problem.code, ERR_BAD_REQUEST);
    assert_int_equal(message.id, 7);
    assert_string_equal(message_name(MSG_GUEST_HELLO), "guest_hello");
}

static void refused(const char *bytes, size_t size, ErrorCode code, uint64_t id)
{
    Message message;
    Problem problem;

    assert_int_equal(decode(&message, bytes, size, &problem), -EPROTO);
    assert_int_equal(problem.code, code);
    assert_int_equal(message.id, id);
    assert_null(message.zone);
    assert_true(problem.text[0] != '\0');
}

TEST(refusals_keep_the_id)
{
    refused(NULL, 0, ERR_BAD_REQUEST, 0);
    refused(BYTES("garbage"), ERR_BAD_REQUEST, 0);
    refused(BYTES("\x80"), ERR_BAD_REQUEST, 0);
    refused(BYTES("\x90"), ERR_BAD_REQUEST, 0);
    refused(BYTES("\x93\x01\x01\x07"), ERR_BAD_REQUEST, 7);         /* no body */
    refused(BYTES("\x95\x01\x01\x07\x80\x80"), ERR_BAD_REQUEST, 7); /* one too many */
    refused(BYTES("\x94\x01\x01\x07\x90"), ERR_BAD_REQUEST, 7);     /* body is no map */
    refused(BYTES("\x94\x01\x01\x07\xc0"), ERR_BAD_REQUEST, 7);
    refused(BYTES("\x94\x01\x01\x07\x81"), ERR_BAD_REQUEST, 7); /* cut off */
    refused(BYTES("\x94\x01\x01\x07\x81\xa1\xff\x01"), ERR_BAD_REQUEST, 7);
    refused(BYTES("\x94\x01\x01\x07\x80\x00"), ERR_BAD_REQUEST, 7); /* something after it */
    refused(BYTES("\x94\x01\x01\xff\x80"), ERR_BAD_REQUEST, 0);     /* id below zero */
    refused(BYTES("\x94\x01\xa1"
                  "a\x01\x80"),
            ERR_BAD_REQUEST, 0);
    refused(BYTES("\x94\x02\x01\x07\x80"), ERR_PROTOCOL_MISMATCH, 7);
    refused(BYTES("\x92\x02\x01"), ERR_PROTOCOL_MISMATCH, 0); /* whatever version 2 looks like */
    refused(BYTES("\x94\x01\x01\x07\x81\xa1"
                  "a\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91"
                  "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0"),
            ERR_TOO_LARGE, 7);
}

/* Every beginning of a message is refused and every change of one byte is survived. */
TEST(cut_and_flipped)
{
    char frame[] = "\x94\x01\x0b\xcd\x30\x39\x83\xa4"
                   "code\xa3x=1\xa1"
                   "b\xc4\x02\xff\xfe\xa1"
                   "d\x92\xcb\0\0\0\0\0\0\0\0\xc0";
    size_t size = sizeof(frame) - 1;
    Message message;
    Problem problem;

    for (size_t n = 0; n < size; n++) {
        char *exact = malloc(n + 1);
        memcpy(exact, frame, n);
        assert_int_equal(decode(&message, exact, n, &problem), -EPROTO);
        free(exact);
    }
    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            frame[i] = (char)(frame[i] ^ 1 << bit);
            if (decode(&message, frame, size, &problem) == 0)
                message_deinit(&message);
            frame[i] = (char)(frame[i] ^ 1 << bit);
        }
    }
    assert_int_equal(decode(&message, frame, size, &problem), 0);
    message_deinit(&message);
}

/* Writing */

TEST(writes_smallest_encodings)
{
    static const char expected[] = "\x94\x01\x02\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x89"
                                   "\xa1"
                                   "a\xc0\xa1"
                                   "b\xc3\xa1"
                                   "c\xc2\xa1"
                                   "d\x7f\xa1"
                                   "e\xd0\x80"
                                   "\xa1"
                                   "f\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\xa1"
                                   "g\xa2hi\xa1"
                                   "h\xc4\x02\xff\x00"
                                   "\xa1"
                                   "i\x94\xc0\xc0\xa1n\xc4\x01\xff";
    Buf buf = BUF_NULL;
    Writer w;

    buf_append(&buf, "before", 6);
    writer_message(&w, &buf, MSG_REPLY, UINT64_MAX, 9);
    write_key(&w, "a");
    write_nil(&w);
    write_key(&w, "b");
    write_bool(&w, true);
    write_key(&w, "c");
    write_bool(&w, false);
    write_key(&w, "d");
    write_uint(&w, 127);
    write_key(&w, "e");
    write_int(&w, -128);
    write_key(&w, "f");
    write_double(&w, 1.0);
    write_key(&w, "g");
    write_text(&w, "hi");
    write_key(&w, "h");
    write_bytes(&w, "\xff", 2);
    write_key(&w, "i");
    write_array(&w, 4);
    write_text(&w, NULL);
    write_object(&w, NULL);
    write_name(&w, "n");
    write_name(&w, "\xff");
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(buf.size, 6 + sizeof(expected) - 1);
    assert_memory_equal(buf_head(&buf) + 6, expected, sizeof(expected) - 1);
    assert_int_equal(wire_check(buf_head(&buf) + 6, buf.size - 6), 0);
    buf_deinit(&buf);
}

TEST(text_is_always_utf8)
{
    Buf buf = BUF_NULL;
    Writer w;

    writer_init(&w, &buf);
    write_text(&w, "a\xff"
                   "b");
    assert_int_equal(writer_finish(&w), 0);
    assert_int_equal(buf.size, 6);
    assert_memory_equal(buf_head(&buf),
                        "\xa5"
                        "a\xef\xbf\xbd"
                        "b",
                        6);
    buf_deinit(&buf);
}

TEST(failed_write_leaves_nothing)
{
    Buf buf = {.limit = 12};
    Writer w;

    buf_append(&buf, "old", 3);
    writer_message(&w, &buf, MSG_REPLY, 1, 1);
    write_key(&w, "key that is too long");
    write_nil(&w); /* would fit again */
    assert_int_equal(writer_finish(&w), -ENOBUFS);
    assert_int_equal(buf.size, 3);
    assert_memory_equal(buf_head(&buf), "old", 3);
    buf_deinit(&buf);
}

/* ---- sizes ---- */

TEST(good_sizes)
{
    static const struct {
        const char *text;
        uint64_t size;
    } cases[] = {
        {"0", 0},
        {"1", 1},
        {"123b", 123},
        {"1k", 1024},
        {"1K", 1024},
        {"1kb", 1024},
        {"1KiB", 1024},
        {"512m", UINT64_C(536870912)},
        {"1.5g", UINT64_C(1610612736)},
        {"0.5k", 512},
        {"0.0001k", 0},
        {"2T", UINT64_C(2199023255552)},
        {"1.000000000001t", UINT64_C(1099511627777)},
        {"1.0000000000000000000000000000001k", 1024},
        {"0.9999999999999999999999999999999k", 1023},
        {"18446744073709551615", UINT64_MAX},
        {"16777215t", UINT64_C(16777215) << 40},
        {"00012", 12},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t size = 42;
        if (size_parse(cases[i].text, strlen(cases[i].text), &size) < 0 || size != cases[i].size)
            fail_msg("%s: %llu", cases[i].text, (unsigned long long)size);
    }
}

TEST(bad_sizes)
{
    static const char *const cases[] = {
        "",
        " ",
        "-1",
        "+1",
        "m",
        ".5g",
        "1.",
        "1.m",
        "1.5",
        "1.5b",
        "1 m",
        "1m ",
        "1mm",
        "1ib",
        "1kk",
        "1kbb",
        "1ki",
        "1e3",
        "0x10",
        "1p",
        "1,5g",
        "1.5.5g",
        "nan",
        "512mB!",
        "18446744073709551616",
        "16777216t",
        "99999999999999999999k",
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t size = 42;
        if (size_parse(cases[i], strlen(cases[i]), &size) != -EINVAL || size != 42)
            fail_msg("'%s' was taken for a size", cases[i]);
    }
}

TEST(reads_no_further_than_told)
{
    uint64_t size;

    assert_int_equal(size_parse("1024m", 4, &size), 0);
    assert_int_equal(size, 1024);
    assert_int_equal(size_parse("1", 0, &size), -EINVAL);
}
