#include <errno.h>
#include <string.h>

#include "host/files/artifact_list.h"
#include "host/files/names.h"
#include "tests/support/cmocka.h"

static void assert_escapes(const char *name, const char *expected)
{
    char escaped[NAME_ESCAPED_SIZE];

    assert_int_equal(name_escape(escaped, name), 0);
    assert_string_equal(escaped, expected);
}

TEST(test_escape)
{
    assert_escapes("plot-1_a+b=c,d@e.PNG", "plot-1_a+b=c,d@e.PNG");
    assert_escapes("-rf", "%2Drf");
    assert_escapes(".hidden", "%2Ehidden");
    assert_escapes("...", "%2E..");
    assert_escapes("100%", "100%25");
    assert_escapes("%41", "%2541");
    assert_escapes("a b", "a%20b");
    assert_escapes("new\nline\033", "new%0Aline%1B");
    assert_escapes("\xff\xc3\xa9", "%FF%C3%A9");
    assert_escapes("$(x)`'\"~*?[]{}|&;<>\\!#^:",
                   "%24%28x%29%60%27%22%7E%2A%3F%5B%5D%7B%7D%7C%26%3B%3C%3E%5C%21%23%5E%3A");
}

TEST(test_long_names)
{
    char one[256], other[256], escaped[NAME_ESCAPED_SIZE], escaped_other[NAME_ESCAPED_SIZE];

    memset(one, 'x', 250);
    strcpy(one + 246, ".csv");
    assert_int_equal(name_escape(escaped, one), 0);
    assert_string_equal(escaped, one);

    memset(one, 0xe4, 255);
    one[255] = '\0';
    memcpy(one + 251, ".csv", 4);
    memcpy(other, one, sizeof(other));
    other[250] = 'y';
    assert_int_equal(name_escape(escaped, one), 0);
    assert_int_equal(name_escape(escaped_other, other), 0);
    assert_true(strlen(escaped) <= NAME_ESCAPED_MAX);
    assert_string_not_equal(escaped, escaped_other);
    assert_string_equal(escaped + strlen(escaped) - 4, ".csv");
    assert_non_null(strstr(escaped, "%-"));
}

TEST(test_display)
{
    char text[16];

    assert_string_equal(path_display(text, sizeof(text), "a/b c\n"), "a/b%20c%0A");
    assert_string_equal(path_display(text, sizeof(text), "0123456789abcdefghi"), "0123456789ab...");
    assert_string_equal(path_display(text, sizeof(text), "\xff\xff\xff\xff\xff\xff"), "%FF%FF%FF%FF...");
}

TEST(test_mime_types)
{
    assert_string_equal(mime_type("table.csv"), "text/csv");
    assert_string_equal(mime_type("a/b.c/PLOT.PNG"), "image/png");
    assert_string_equal(mime_type("data.tar.gz"), "application/gzip");
    assert_string_equal(mime_type("model.pkl"), "application/x-pickle");
    assert_string_equal(mime_type("README"), "application/octet-stream");
    assert_string_equal(mime_type("end."), "application/octet-stream");
    assert_string_equal(mime_type("x.unknown"), "application/octet-stream");
}
