#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/files/disk.h"
#include "proto/limits.h"

#define MIB (UINT64_C(1) << 20)

static const DiskSize sizes[] = {
    {DISK_MINIMUM, FILES_MINIMUM}, {DISK_MINIMUM, 100000}, {32 * MIB, 1000},
    {1024 * MIB, 100000},          {1024 * MIB, 10000000}, {UINT64_C(1) << 40, 100000},
    {DISK_MAXIMUM, FILES_MAXIMUM},
};

/* Layouts stay within what ext4 can be made with, whatever was asked for. */
static void test_bounds(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        DiskLayout layout = disk_layout(sizes[i]);
        uint64_t groups = (layout.blocks + layout.group_blocks - 1) / layout.group_blocks;

        assert_int_equal(layout.group_blocks % 8, 0);
        assert_in_range(layout.group_blocks, 256, 8 * DISK_BLOCK);
        assert_in_range(layout.inodes, sizes[i].files, groups * 8 * DISK_BLOCK);
        assert_true(layout.blocks <= UINT32_MAX);
        assert_in_range(layout.reserved, 1, layout.blocks / 2);
    }
}

/* The rest is for what is asked for: with its tables, and little more. */
static void test_room(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        DiskLayout layout = disk_layout(sizes[i]);
        uint64_t bytes = layout.blocks * DISK_BLOCK, tables = layout.inodes * 256;

        assert_true(bytes >= sizes[i].bytes + tables);
        assert_true(bytes <= sizes[i].bytes * 105 / 100 + tables * 110 / 100 + 20 * MIB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
