#include <dirent.h>
#include <sched.h>
#include <string.h>

#include "host/engine/cgroup.h"
#include "proto/base/program.h"
#include "tests/support/cmocka.h"

static unsigned count_entries(const char *path)
{
    DIR *directory = opendir(path);
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void test_nothing_changes(void **state)
{
    unsigned threads = count_entries("/proc/self/task"), descriptors = count_entries("/proc/self/fd");
    char *before, *after;

    assert_int_equal(capture_file("/proc/self/cgroup", 1 << 16, &before), 0);
    for (int i = 0; i < 3; i++) {
        cgroup_move_expected();
        cgroup_move_expected();
        while (count_entries("/proc/self/task") > threads)
            sched_yield();
    }
    assert_int_equal(capture_file("/proc/self/cgroup", 1 << 16, &after), 0);
    assert_string_equal(before, after);
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    free(before);
    free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_changes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
