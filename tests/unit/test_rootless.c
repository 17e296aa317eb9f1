#include <errno.h>

#include "host/engine/rootless.h"
#include "tests/support/cmocka.h"

TEST(test_a_user_is_found_by_name_and_by_number)
{
    static const char text[] = "alice:100000:65536\n3000:165536:70000\nbob:300000:65536\nbob:500000:10\n";
    IdRange range;
    uint32_t from;

    assert_int_equal(subordinate_find(text, "alice", 1, &range, &from), 0);
    assert_int_equal(range.first, 100000);
    assert_int_equal(range.count, 65536);
    assert_int_equal(subordinate_find(text, "carol", 3000, &range, &from), 0);
    assert_int_equal(range.first, 165536);
    assert_int_equal(range.count, 70000);
    assert_int_equal(subordinate_find(text, "bob", 2, &range, &from), 0);
    assert_int_equal(range.first, 300000);
}

TEST(test_what_nobody_has_is_told)
{
    IdRange range;
    uint32_t from;

    assert_int_equal(subordinate_find("", "alice", 1, &range, &from), -ENOENT);
    assert_int_equal(from, SUBORDINATE_FIRST);
    assert_int_equal(subordinate_find("ali:100000:65536\nbob:165536:65536", "alice", 1, &range, &from),
                     -ENOENT);
    assert_int_equal(from, 231072);
}

TEST(test_lines_that_say_nothing_are_passed_over)
{
    static const char text[] = "\nalice\nalice:x:1\nalice:4294967295:2\n# alice:1:2\nalice:200000:65536\n";
    IdRange range;
    uint32_t from;

    assert_int_equal(subordinate_find(text, "alice", 1, &range, &from), 0);
    assert_int_equal(range.first, 200000);
    assert_int_equal(from, 265536);
}
