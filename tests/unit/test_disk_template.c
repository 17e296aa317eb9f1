#include <stdlib.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/disk.h"
#include "proto/limits.h"
#include "tests/support/cmocka.h"

#define MIB         (UINT64_C(1) << 20)
#define HEAD        (1u << 20) /* of a file system: all that an empty one of these sizes differs in */
#define THREADS     8
#define NEW_SIZE    100 /* the first that no other test has made */
#define STORED_MOST (1u << 20)
#define LARGE_MOST  (32u << 20)

static const char *const checkers[] = {"/usr/sbin/e2fsck", "/sbin/e2fsck", "/usr/local/sbin/e2fsck"};
static char directory[] = "/tmp/limpet-template-XXXXXX";
static int directory_fd;

static const DiskSize sizes[] = {
    {DISK_MINIMUM, FILES_MINIMUM}, {DISK_MINIMUM, 100000}, {32 * MIB, 1000},
    {1024 * MIB, 100000},          {1024 * MIB, 10000000}, {UINT64_C(1) << 40, 100000},
    {DISK_MAXIMUM, FILES_MAXIMUM},
};

/* Layouts stay within what ext4 can be made with, whatever was asked for. */
TEST(test_bounds)
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
TEST(test_room)
{
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        DiskLayout layout = disk_layout(sizes[i]);
        uint64_t bytes = layout.blocks * DISK_BLOCK, tables = layout.inodes * 256;

        assert_true(bytes >= sizes[i].bytes + tables);
        assert_true(bytes <= sizes[i].bytes * 105 / 100 + tables * 110 / 100 + 20 * MIB);
    }
}

static DiskSize size_of(unsigned number)
{
    return (DiskSize){DISK_MINIMUM + number * MIB, FILES_MINIMUM + number};
}

static int make(const char *name, DiskSize size)
{
    Problem problem = PROBLEM_NULL;

    int file = disk_template_make(directory_fd, name, size, &problem);

    if (file >= 0)
        close(file);
    return file < 0 ? file : 0;
}

/* Asserts that the image is a file system without a fault, of that size, and sparse. */
static void assert_sound(const char *name, DiskSize size)
{
    char command[256];
    struct stat st;

    assert_int_equal(fstatat(directory_fd, name, &st, 0), 0);
    assert_int_equal(st.st_size, disk_layout(size).blocks * DISK_BLOCK);
    assert_true(st.st_blocks * 512 <= STORED_MOST);
    for (size_t i = 0; i < ARRAY_SIZE(checkers); i++) {
        if (access(checkers[i], X_OK) < 0)
            continue;
        snprintf(command, sizeof(command), "%s -f -n %s/%s >/dev/null 2>&1", checkers[i], directory, name);
        assert_int_equal(system(command), 0);
        return;
    }
    fail();
}

static void read_head(const char *name, uint8_t *head)
{
    int fd = openat(directory_fd, name, O_RDONLY);

    assert_int_equal(pread(fd, head, HEAD, 0), HEAD);
    close(fd);
}

static void assert_same(const char *one, const char *other)
{
    static uint8_t heads[2][HEAD];

    read_head(one, heads[0]);
    read_head(other, heads[1]);
    assert_memory_equal(heads[0], heads[1], HEAD);
}

static void for_each_file(void (*on_file)(const char *name))
{
    DIR *stream = opendir(directory);
    struct dirent *entry;

    while ((entry = readdir(stream)))
        if (entry->d_name[0] != '.')
            on_file(entry->d_name);
    closedir(stream);
}

static void remove_one(const char *name)
{
    unlinkat(directory_fd, name, 0);
}

static int remove_all(void **state)
{
    for_each_file(remove_one);
    return 0;
}

TEST_WITH(test_copies, NULL, remove_all)
{
    assert_int_equal(make("one", size_of(0)), 0);
    assert_int_equal(make("two", size_of(0)), 0);
    assert_sound("one", size_of(0));
    assert_sound("two", size_of(0));
    assert_same("one", "two");
}

/* Bytes written to a copy are in no other. */
TEST_WITH(test_changed_copy, NULL, remove_all)
{
    static uint8_t noise[HEAD];

    assert_int_equal(make("one", size_of(0)), 0);
    int fd = openat(directory_fd, "one", O_WRONLY);
    memset(noise, 0xa5, sizeof(noise));
    assert_int_equal(pwrite(fd, noise, sizeof(noise), 0), sizeof(noise));
    close(fd);
    assert_int_equal(make("two", size_of(0)), 0);
    assert_sound("two", size_of(0));
    assert_int_equal(make("one", size_of(0)), 0);
    assert_same("one", "two");
}

/* More than are kept, again and again. */
TEST_WITH(test_sizes, NULL, remove_all)
{
    char name[16];

    for (unsigned i = 0; i < 3 * DISK_TEMPLATES_MAX; i++) {
        DiskSize size = size_of(i % (DISK_TEMPLATES_MAX + 2));

        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(make(name, size), 0);
        assert_sound(name, size);
    }
}

static void *make_some(void *number)
{
    uintptr_t own = (uintptr_t)number, failed = 0;
    char name[32];

    for (unsigned i = 0; i < THREADS; i++) {
        snprintf(name, sizeof(name), "%u-%u", (unsigned)own, i);
        failed += make(name, size_of(NEW_SIZE + i)) < 0;
    }
    return (void *)failed;
}

/* Several threads make images of sizes that have no template yet. */
TEST_WITH(test_at_once, NULL, remove_all)
{
    pthread_t threads[THREADS];
    char names[2][32];
    void *failed;

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_some, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    for (unsigned size = 0; size < THREADS; size++) {
        snprintf(names[0], sizeof(names[0]), "0-%u", size);
        assert_sound(names[0], size_of(NEW_SIZE + size));
        for (unsigned i = 1; i < THREADS; i++) {
            snprintf(names[1], sizeof(names[1]), "%u-%u", i, size);
            assert_same(names[0], names[1]);
        }
    }
}

/* The largest that there can be. */
TEST_WITH(test_largest, NULL, remove_all)
{
    DiskSize size = {DISK_MAXIMUM, FILES_MAXIMUM};
    struct stat st;

    assert_int_equal(make("large", size), 0);
    assert_int_equal(fstatat(directory_fd, "large", &st, 0), 0);
    assert_int_equal(st.st_size, disk_layout(size).blocks * DISK_BLOCK);
    assert_in_range(st.st_blocks, 1, LARGE_MOST / 512);
}

/* A disk that cannot be made is told, leaves no file, and is in nobody's way. */
TEST_WITH(test_failure, NULL, remove_all)
{
    Problem problem = PROBLEM_NULL;
    DiskSize size = {UINT64_C(1) << 62, FILES_MINIMUM};

    assert_int_equal(disk_template_make(directory_fd, "never", size, &problem), -EPROTO);
    assert_true(*problem.text);
    assert_int_equal(faccessat(directory_fd, "never", F_OK, 0), -1);
    assert_int_equal(make("one", size_of(0)), 0);
    assert_sound("one", size_of(0));
}

static int set_up(void **state)
{
    directory_fd = mkdtemp(directory) ? open(directory, O_PATH | O_DIRECTORY) : -1;
    return directory_fd < 0;
}

static int tear_down(void **state)
{
    close(directory_fd);
    return rmdir(directory); /* fails where anything but the disks was made */
}

int main(void)
{
    return tests_run(set_up, tear_down);
}
