#include <errno.h>
#include <string.h>

#include "proto/wire.h"
#include "tests/support/cmocka.h"

#define R "\xef\xbf\xbd" /* U+FFFD */

/* `replaced` is what Python's decode("utf-8", "replace").encode() makes of `bytes`. */
static const struct {
    const char *bytes, *replaced;
} cases[] = {
    {"", ""},
    {"plain ascii, longer than eight bytes", "plain ascii, longer than eight bytes"},
    {"\x7f", "\x7f"},
    {"\xc2\x80 \xdf\xbf", "\xc2\x80 \xdf\xbf"},
    {"\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf",
     "\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf"},
    {"\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"},
    {"\x80", R},
    {"\xbf\xbf", R R},
    {"\xc0\xaf", R R}, /* overlong */
    {"\xc1\x81", R R}, /* overlong */
    {"\xc2", R},       /* cut off */
    {"\xc2"
     "A",
     R "A"},
    {"\xe0\x80\x80", R R R}, /* overlong */
    {"\xe0\x9f\xbf", R R R}, /* overlong */
    {"\xe0\xa0", R},         /* cut off */
    {"\xe1\x80"
     "A",
     R "A"},
    {"\xed\xa0\x80", R R R}, /* surrogate */
    {"\xed\xbf\xbf", R R R}, /* surrogate */
    {"\xf0\x80\x80\x80", R R R R},
    {"\xf0\x8f\xbf\xbf", R R R R},
    {"\xf0\x90\x80", R},
    {"\xf0\x90\x80"
     "A",
     R "A"},
    {"\xf0\x90"
     "A",
     R "A"},
    {"\xf4\x90\x80\x80", R R R R}, /* above U+10FFFF */
    {"\xf5\x80\x80\x80", R R R R},
    {"\xfe\xff", R R},
    {"\xf0\x9f\xf0\x9f\x90\x9a", R "\xf0\x9f\x90\x9a"},
    {"\xe2\x82\xac\xe2\x82", "\xe2\x82\xac" R},
    {"12345678\xff"
     "12345678",
     "12345678" R "12345678"},
    {"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64",
     "a" R R R "b" R "c" R R "d"}, /* Unicode, table 3-8 */
};

TEST(replaces_as_python_does)
{
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        Buf buf = BUF_NULL;
        size_t n = strlen(cases[i].bytes);

        assert_int_equal(utf8_append_replaced(&buf, cases[i].bytes, n), 0);
        assert_int_equal(buf.size, strlen(cases[i].replaced));
        if (buf.size > 0)
            assert_memory_equal(buf_head(&buf), cases[i].replaced, buf.size);
        assert_int_equal(utf8_valid(cases[i].bytes, n), strcmp(cases[i].bytes, cases[i].replaced) == 0);
        assert_true(utf8_valid(cases[i].replaced, strlen(cases[i].replaced)));
        buf_deinit(&buf);
    }
}

TEST(nul_is_a_character)
{
    Buf buf = BUF_NULL;

    assert_true(utf8_valid("a\0b", 3));
    assert_true(utf8_valid(NULL, 0));
    assert_int_equal(utf8_append_replaced(&buf, "a\0\xff", 3), 0);
    assert_int_equal(buf.size, 5);
    assert_memory_equal(buf_head(&buf), "a\0" R, 5);
    buf_deinit(&buf);
}

/* Every sequence of one, two and three bytes: as many replacements as the specification of the maximal
 * subpart says, found by a second way of computing it. */
static bool could_begin_character(const uint8_t *p, size_t n)
{
    static const struct {
        uint8_t first_low, first_high, second_low, second_high, length;
    } rows[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        bool fits = p[0] >= rows[i].first_low && p[0] <= rows[i].first_high && n <= rows[i].length;
        for (size_t j = 1; fits && j < n; j++)
            fits = j == 1 ? p[j] >= rows[i].second_low && p[j] <= rows[i].second_high : (p[j] & 0xc0) == 0x80;
        if (fits)
            return true;
    }
    return false;
}

static size_t expected_size(const uint8_t *p, size_t n)
{
    size_t size = 0;

    while (n > 0) {
        size_t whole = p[0] < 0x80 ? 1 : 0, step = 1;
        for (size_t length = 2; length <= n; length++) {
            if (!could_begin_character(p, length))
                break;
            step = length;
            if (length == (p[0] >= 0xf0 ? 4u : p[0] >= 0xe0 ? 3u : 2u))
                whole = length;
        }
        size += whole ? whole : 3;
        step = whole ? whole : step;
        p += step;
        n -= step;
    }
    return size;
}

TEST(every_short_sequence)
{
    Buf buf = BUF_NULL;

    for (uint32_t i = 0; i < 1u << 24; i += i < 0x10000 ? 1 : 5) {
        uint8_t bytes[3] = {(uint8_t)(i >> 8), (uint8_t)i, (uint8_t)(i >> 16)};
        size_t n = i < 0x100 ? 1 : i < 0x10000 ? 2 : 3, from = i < 0x100 ? 1 : 0;

        buf_clear(&buf);
        if (utf8_append_replaced(&buf, bytes + from, n) < 0 || buf.size != expected_size(bytes + from, n))
            fail_msg("%02x %02x %02x", bytes[0], bytes[1], bytes[2]);
    }
    buf_deinit(&buf);
}

/* Long runs of ASCII are looked at in blocks: a bad byte is found wherever in them it is. */
TEST(bad_bytes_in_long_runs)
{
    uint8_t bytes[100];

    memset(bytes, 'x', sizeof(bytes));
    for (size_t n = 1; n <= sizeof(bytes); n++) {
        assert_true(utf8_valid(bytes, n));
        for (size_t at = 0; at < n; at++) {
            Buf buf = BUF_NULL;

            bytes[at] = 0xff;
            assert_false(utf8_valid(bytes, n));
            assert_int_equal(utf8_append_replaced(&buf, bytes, n), 0);
            assert_int_equal(buf.size, n + 2);
            assert_memory_equal(buf_head(&buf) + at, R, 3);
            buf_deinit(&buf);
            bytes[at] = 'x';
        }
    }
}

TEST(keeps_to_the_limit)
{
    Buf buf = {.limit = 4};

    assert_int_equal(utf8_append_replaced(&buf, "ab\xff", 3), -ENOBUFS);
    assert_int_equal(utf8_append_replaced(&buf, "abc", 3), -ENOBUFS);
    assert_true(buf.size <= 4);
    buf_deinit(&buf);
}
