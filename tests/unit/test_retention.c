#include "host/files/leftovers.h"
#include "tests/support/cmocka.h"

#define NOW 1000000.0

static size_t chosen(Leftovers *leftovers, double keep_for, uint64_t keep_size)
{
    return retention_choose(leftovers, &(Retention){keep_for, keep_size}, NOW);
}

static Leftovers three(Leftover entries[3])
{
    entries[0] = (Leftover){.bytes = 10, .ended = NOW - 5};
    entries[1] = (Leftover){.bytes = 20, .ended = NOW - 500};
    entries[2] = (Leftover){.bytes = 30, .ended = NOW - 50};
    return (Leftovers){.entries = entries, .n = 3};
}

static void test_by_age(void **state)
{
    Leftover entries[3];
    Leftovers leftovers = three(entries);

    assert_int_equal(chosen(&leftovers, 1000, 0), 0);
    assert_int_equal(chosen(&leftovers, 100, 0), 1);
    assert_int_equal(entries[0].bytes, 20);
    assert_int_equal(chosen(&leftovers, 20, 0), 2);
    assert_int_equal(entries[1].bytes, 30);
    assert_int_equal(chosen(&leftovers, 1, 0), 3);
    assert_int_equal(chosen(&leftovers, 0, 0), 0); /* for ever, any number */
}

static void test_by_size(void **state)
{
    Leftover entries[3];
    Leftovers leftovers = three(entries);

    assert_int_equal(chosen(&leftovers, 0, 60), 0);
    assert_int_equal(chosen(&leftovers, 0, 59), 1);
    assert_int_equal(entries[0].bytes, 20); /* the oldest, though not the largest */
    assert_int_equal(chosen(&leftovers, 0, 39), 2);
    assert_int_equal(chosen(&leftovers, 0, 9), 3);
}

static void test_both(void **state)
{
    Leftover entries[3];
    Leftovers leftovers = three(entries), nothing = {0};

    assert_int_equal(chosen(&leftovers, 100, 40), 1); /* what is too old makes the room */
    assert_int_equal(chosen(&leftovers, 100, 10), 2);
    assert_int_equal(chosen(&nothing, 1, 1), 0);
}

/* A clock that was put back makes nothing old. */
static void test_from_the_future(void **state)
{
    Leftover entry = {.bytes = 1, .ended = NOW + 1e6};
    Leftovers leftovers = {.entries = &entry, .n = 1};

    assert_int_equal(chosen(&leftovers, 1, 0), 0);
}

static void test_memories(void **state)
{
    Leftover entries[3];
    Leftovers leftovers = three(entries);

    entries[0].memory.bytes = 8;
    entries[2].memory.bytes = 25;
    assert_int_equal(chosen(&leftovers, 100, 40), 1);
    assert_false(entries[1].memory.goes); /* what is too old makes the room */
    assert_int_equal(chosen(&leftovers, 0, 40), 0);
    assert_true(entries[1].memory.goes);
    assert_false(entries[2].memory.goes);
    leftovers = three(entries);
    entries[0].memory.bytes = 8;
    entries[2].memory.bytes = 25;
    assert_int_equal(chosen(&leftovers, 0, 26), 1); /* the oldest, which has none */
    assert_true(entries[1].memory.goes && entries[2].memory.goes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_age),          cmocka_unit_test(test_by_size),  cmocka_unit_test(test_both),
        cmocka_unit_test(test_from_the_future), cmocka_unit_test(test_memories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
