#include <errno.h>
#include <string.h>

#include "proto/wire.h"
#include "tests/support/cmocka.h"

static void good_sizes(void **state)
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

static void bad_sizes(void **state)
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

static void reads_no_further_than_told(void **state)
{
    uint64_t size;

    assert_int_equal(size_parse("1024m", 4, &size), 0);
    assert_int_equal(size, 1024);
    assert_int_equal(size_parse("1", 0, &size), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_sizes),
        cmocka_unit_test(bad_sizes),
        cmocka_unit_test(reads_no_further_than_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
