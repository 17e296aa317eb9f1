/* guest/supervisor/command/child.h: how a program is described where processes are listed. */
#include <string.h>

#include "guest/supervisor/command/child.h"
#include "tests/support/cmocka.h"

#define ROOM(n) ((n) + 1) /* for n bytes of text */

static char told[512];

/* In `size` bytes, of which no more are written. */
static const char *describe(size_t size, const char **argv)
{
    const CommandSpec program = {.argv = (char **)argv};

    memset(told, '~', sizeof(told));
    command_spec_describe(&program, told, size);
    assert_true(strnlen(told, sizeof(told)) < size);
    for (size_t i = size; i < sizeof(told); i++)
        assert_int_equal(told[i], '~');
    return told;
}

#define ARGV(...) ((const char *[]){__VA_ARGS__, NULL})

TEST(arguments)
{
    assert_string_equal(describe(64, ARGV("ls")), "ls");
    assert_string_equal(describe(64, ARGV("ls", "-l", "a b")), "ls -l a b");
    assert_string_equal(describe(64, ARGV("printf", "", "x")), "printf  x");
}

TEST(a_line)
{
    assert_string_equal(describe(64, ARGV("bash", "-c", "sleep 1; ls")), "sleep 1; ls");
    assert_string_equal(describe(64, ARGV("bash", "-c", "")), "");
    assert_string_equal(describe(64, ARGV("bash", "-c")), "bash -c");
    assert_string_equal(describe(64, ARGV("bash", "-x", "ls")), "bash -x ls");
    assert_string_equal(describe(64, ARGV("sh", "-c", "ls")), "sh -c ls");
}

TEST(bytes_that_are_no_text)
{
    assert_string_equal(describe(64, ARGV("a\xff", "\xc3", "b")), "a\xef\xbf\xbd \xef\xbf\xbd b");
    assert_string_equal(describe(64, ARGV("\xc3\xa9")), "\xc3\xa9");
}

/* Each length that cuts it ends before a character, never in one. */
TEST(cut_between_characters)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xff!";
    static const char whole[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xef\xbf\xbd!";
    static const size_t ends[] = {0, 1, 3, 6, 10, 11, 14, 15};

    for (size_t n = 0; n <= sizeof(whole); n++) {
        size_t end = 0;

        for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
            if (ends[i] <= n)
                end = ends[i];
        describe(ROOM(n), ARGV(text));
        assert_int_equal(strlen(told), end);
        assert_memory_equal(told, whole, end);
    }
}

TEST(more_than_there_is_room_for)
{
    static char much[4096];
    const char *many[1001] = {0};

    memset(much, 'x', sizeof(much) - 1);
    for (size_t i = 0; i < 1000; i++)
        many[i] = "ab";
    describe(ROOM(LIMIT_NOTE), ARGV("bash", "-c", much));
    assert_int_equal(strlen(told), LIMIT_NOTE);
    assert_memory_equal(told, much, LIMIT_NOTE);
    describe(ROOM(LIMIT_NOTE), ARGV("p", much, much));
    assert_int_equal(strlen(told), LIMIT_NOTE);
    assert_memory_equal(told, "p xxx", 5);
    describe(ROOM(LIMIT_NOTE), many);
    assert_int_equal(strlen(told), LIMIT_NOTE);
    assert_memory_equal(told, "ab ab ab ", 9);
    memset(much, 0xff, sizeof(much) - 1);
    describe(ROOM(LIMIT_NOTE), ARGV(much)); /* three bytes for each of them */
    assert_int_equal(strlen(told), LIMIT_NOTE - LIMIT_NOTE % 3);
}
