/* clients/c/json.c: what JSON becomes of which msgpack. */
#include <locale.h>
#include <math.h>
#include <string.h>

#include "clients/c/json.h"
#include "proto/wire.h"
#include "tests/support/cmocka.h"

static void expect(const msgpack_object *object, JsonBytes bytes, const char *json)
{
    _cleanup_(buf_deinit) Buf buf = BUF_NULL;

    assert_int_equal(json_write(&buf, object, bytes), 0);
    assert_int_equal(buf.size, strlen(json));
    assert_memory_equal(buf_head(&buf), json, buf.size);
}

static msgpack_object text(const char *bytes, size_t size)
{
    return (msgpack_object){.type = MSGPACK_OBJECT_STR, .via.str = {.ptr = bytes, .size = (uint32_t)size}};
}

static msgpack_object bin(const char *bytes, size_t size)
{
    return (msgpack_object){.type = MSGPACK_OBJECT_BIN, .via.bin = {.ptr = bytes, .size = (uint32_t)size}};
}

#define TEXT(literal) text(literal, sizeof(literal) - 1)
#define BIN(literal)  bin(literal, sizeof(literal) - 1)

static void expect_text(msgpack_object object, const char *json)
{
    expect(&object, JSON_BASE64, json);
}

static void expect_path(msgpack_object object, const char *json)
{
    expect(&object, JSON_PATH, json);
}

static void expect_number(double number, const char *json)
{
    expect_text((msgpack_object){.type = MSGPACK_OBJECT_FLOAT64, .via.f64 = number}, json);
}

TEST(test_text)
{
    expect_text(TEXT(""), "\"\"");
    expect_text(TEXT("plain"), "\"plain\"");
    expect_text(TEXT("\"\\/"), "\"\\\"\\\\/\"");
    expect_text(TEXT("\b\t\n\f\r"), "\"\\b\\t\\n\\f\\r\"");
    expect_text(TEXT("a\0\x01\x1f\x7f"), "\"a\\u0000\\u0001\\u001f\x7f\"");
    expect_text(TEXT("ü€😀"), "\"ü€😀\"");
}

TEST(test_text_that_is_not_utf8)
{
    expect_text(TEXT("a\xff"
                     "b\n"),
                "\"a\xef\xbf\xbd"
                "b\\n\"");
    expect_text(TEXT("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(test_base64)
{
    expect_text(BIN(""), "\"\"");
    expect_text(BIN("f"), "\"Zg==\"");
    expect_text(BIN("fo"), "\"Zm8=\"");
    expect_text(BIN("foo"), "\"Zm9v\"");
    expect_text(BIN("foob"), "\"Zm9vYg==\"");
    expect_text(BIN("\xff\xfe\xfd\0"), "\"//79AA==\"");
}

TEST(test_paths)
{
    expect_path(BIN("/tmp/ü"), "\"/tmp/ü\"");
    expect_path(BIN("a\xff\xc3"), "\"a\\udcff\\udcc3\"");
    expect_path(BIN("\xed\xa0\x80z"), "\"\\udced\\udca0\\udc80z\"");
    expect_path(BIN("\xf0\x9f\x98"), "\"\\udcf0\\udc9f\\udc98\"");
    expect_path(BIN("\"\n"), "\"\\\"\\n\"");
    expect_path(TEXT("text"), "\"text\"");
}

TEST(test_numbers)
{
    expect_text((msgpack_object){.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = UINT64_MAX},
                "18446744073709551615");
    expect_text((msgpack_object){.type = MSGPACK_OBJECT_NEGATIVE_INTEGER, .via.i64 = INT64_MIN},
                "-9223372036854775808");
    expect_text((msgpack_object){.type = MSGPACK_OBJECT_NIL}, "null");
    expect_text((msgpack_object){.type = MSGPACK_OBJECT_BOOLEAN, .via.boolean = true}, "true");
    expect_number(0, "0.0");
    expect_number(-1, "-1.0");
    expect_number(0.1, "0.1");
    expect_number(1.0 / 3, "0.3333333333333333");
    expect_number(0.1 + 0.2, "0.30000000000000004");
    expect_number(1e300, "1e+300");
    expect_number(5e-324, "4.94065645841247e-324");
    expect_number(NAN, "null");
    expect_number(INFINITY, "null");
    expect_number(-INFINITY, "null");
}

TEST(test_decimal_point_of_the_locale)
{
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    size_t i = 0;

    while (i < ARRAY_SIZE(locales) && !setlocale(LC_NUMERIC, locales[i]))
        i++;
    if (i == ARRAY_SIZE(locales))
        skip();
    expect_number(0.5, "0.5");
    expect_number(1.0 / 3, "0.3333333333333333");
    setlocale(LC_NUMERIC, "C");
}

TEST(test_containers)
{
    msgpack_object items[] = {TEXT("x"), BIN("\xff")};
    msgpack_object_kv pairs[] = {
        {.key = TEXT("k"), .val = {.type = MSGPACK_OBJECT_ARRAY, .via.array = {.size = 2, .ptr = items}}},
        {.key = BIN("\xfe"), .val = BIN("\xff")},
        {.key = {.type = MSGPACK_OBJECT_POSITIVE_INTEGER, .via.u64 = 1},
         .val = {.type = MSGPACK_OBJECT_ARRAY}},
    };
    msgpack_object map = {.type = MSGPACK_OBJECT_MAP, .via.map = {.size = 3, .ptr = pairs}};

    expect(&map, JSON_BASE64, "{\"k\": [\"x\", \"/w==\"], \"\\udcfe\": \"/w==\", \"1\": []}");
    expect(&map, JSON_PATH, "{\"k\": [\"x\", \"\\udcff\"], \"\\udcfe\": \"\\udcff\", \"1\": []}");
    expect_text((msgpack_object){.type = MSGPACK_OBJECT_MAP}, "{}");
}

TEST(test_a_buffer_that_is_full)
{
    msgpack_object items[] = {TEXT("x\n\xff"), BIN("\xff\xff"), TEXT("y")};
    msgpack_object object = {.type = MSGPACK_OBJECT_ARRAY, .via.array = {.size = 3, .ptr = items}};

    for (size_t limit = 1; limit < strlen("[\"x\\n\xef\xbf\xbd\", \"//8=\", \"y\"]"); limit++) {
        _cleanup_(buf_deinit) Buf buf = {.limit = limit};

        assert_true(json_write(&buf, &object, JSON_BASE64) < 0);
        assert_true(buf.size <= limit);
    }
}
