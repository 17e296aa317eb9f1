#include <sched.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/program.h"
#include "host/engine/cgroup.h"
#include "tests/support/cmocka.h"

#define ROOT_MOUNT "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
#define V1_MOUNTS                                                                                            \
    ROOT_MOUNT "30 29 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 master:1 - cgroup cgroup rw,memory\n"  \
               "31 29 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
#define UNIFIED_MOUNT "32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void expect(const char *cgroup, const char *mounts, const char *directory, bool unified)
{
    Cgroup found;

    assert_int_equal(cgroup_find(cgroup, mounts, "memory", &found), 0);
    assert_string_equal(found.directory, directory);
    assert_int_equal(found.unified, unified);
    cgroup_deinit(&found);
}

TEST(test_version_1)
{
    expect("5:cpu,cpuacct:/other\n4:memory:/limpet-x/a\n", V1_MOUNTS, "/sys/fs/cgroup/memory/limpet-x/a",
           false);
}

TEST(test_version_2)
{
    expect("0::/limpet-x/a\n", ROOT_MOUNT "25 22 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
           "/sys/fs/cgroup/limpet-x/a", true);
}

TEST(test_hybrid)
{
    expect("4:memory:/m\n0::/u\n", UNIFIED_MOUNT V1_MOUNTS, "/sys/fs/cgroup/memory/m", false);
}

TEST(test_a_mount_that_shows_a_part_of_the_tree)
{
    expect("0::/docker/c/limpet-x/a\n", "25 22 0:23 /docker/c /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
           "/sys/fs/cgroup/limpet-x/a", true);
}

TEST(test_each_controller_is_found_where_it_is)
{
    Cgroup found;

    assert_int_equal(cgroup_find("5:cpu,cpuacct:/c\n4:memory:/m\n", V1_MOUNTS, "cpuacct", &found), 0);
    assert_string_equal(found.directory, "/sys/fs/cgroup/cpu/c");
    assert_false(found.unified);
    assert_true(cgroup_is_called(&found, "c"));
    assert_false(cgroup_is_called(&found, "cpu"));
    cgroup_deinit(&found);
    assert_false(cgroup_is_called(&found, "c"));
    assert_int_equal(cgroup_find("4:memory:/m\n0::/u/c\n", UNIFIED_MOUNT V1_MOUNTS, "cpu", &found), 0);
    assert_string_equal(found.directory, "/sys/fs/cgroup/unified/u/c");
    assert_true(found.unified);
    cgroup_deinit(&found);
}

TEST(test_not_there)
{
    Cgroup found;

    assert_int_equal(cgroup_find("", V1_MOUNTS, "memory", &found), -ENOENT);
    assert_int_equal(cgroup_find("4:memory:/m\n", ROOT_MOUNT, "memory", &found), -ENOENT);
    assert_int_equal(cgroup_find("0::/u\n", V1_MOUNTS, "memory", &found), -ENOENT);
    assert_int_equal(cgroup_find("garbage\n:\n::\n7:memoryx:/m", V1_MOUNTS, "memory", &found), -ENOENT);
    assert_int_equal(cgroup_find("4:memory:/m\n", "short\n - cgroup x\n\n1 2 - cgroup", "memory", &found),
                     -ENOENT);
}

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[200];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void remove_file(const char *directory, const char *name)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    assert_int_equal(unlink(path), 0);
}

TEST(test_read)
{
    char directory[] = "/tmp/limpet-cgroup-XXXXXX";
    Cgroup memory;
    uint64_t bytes, kills;

    assert_non_null(mkdtemp(directory));
    memory = (Cgroup){.directory = directory};
    assert_int_equal(cgroup_read_memory(&memory, &bytes, &kills), -ENOENT);
    write_file(directory, "memory.usage_in_bytes", "12345\n");
    write_file(directory, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    assert_int_equal(cgroup_read_memory(&memory, &bytes, &kills), 0);
    assert_int_equal(bytes, 12345);
    assert_int_equal(kills, 3);
    memory.unified = true;
    write_file(directory, "memory.current", "99999999999\n");
    write_file(directory, "memory.events", "low 0\nhigh 0\nmax 9\noom 5\noom_kill 2\noom_group_kill 0\n");
    assert_int_equal(cgroup_read_memory(&memory, &bytes, &kills), 0);
    assert_true(bytes == 99999999999);
    assert_int_equal(kills, 2);
    write_file(directory, "memory.events", "nothing\n");
    assert_int_equal(cgroup_read_memory(&memory, &bytes, &kills), -EBADMSG);
    bytes = 0;
    assert_int_equal(cgroup_read_memory(&memory, &bytes, NULL), 0);
    assert_true(bytes == 99999999999);
    remove_file(directory, "memory.usage_in_bytes");
    remove_file(directory, "memory.oom_control");
    remove_file(directory, "memory.current");
    remove_file(directory, "memory.events");
    assert_int_equal(rmdir(directory), 0);
}

TEST(test_time)
{
    char directory[] = "/tmp/limpet-cgroup-XXXXXX";
    Cgroup cpuacct = {0};
    uint64_t time;

    assert_int_equal(cgroup_read_time(&cpuacct, &time), -ENOENT);
    assert_non_null(mkdtemp(directory));
    cpuacct.directory = directory;
    assert_int_equal(cgroup_read_time(&cpuacct, &time), -ENOENT);
    write_file(directory, "cpuacct.usage", "4000000123\n");
    assert_int_equal(cgroup_read_time(&cpuacct, &time), 0);
    assert_true(time == 4000000123);
    cpuacct.unified = true;
    write_file(directory, "cpu.stat", "usage_usec 4000001\nuser_usec 3\nsystem_usec 4\n");
    assert_int_equal(cgroup_read_time(&cpuacct, &time), 0);
    assert_true(time == 4000001000);
    write_file(directory, "cpu.stat", "nothing\n");
    assert_int_equal(cgroup_read_time(&cpuacct, &time), -EBADMSG);
    remove_file(directory, "cpuacct.usage");
    remove_file(directory, "cpu.stat");
    assert_int_equal(rmdir(directory), 0);
}

TEST(test_idle)
{
    char directory[] = "/tmp/limpet-cgroup-XXXXXX", path[200], text[8] = "";
    Cgroup cpu = {0};
    FILE *file;

    assert_int_equal(cgroup_set_idle(&cpu, true), -ENOENT);
    assert_non_null(mkdtemp(directory));
    cpu.directory = directory;
    assert_int_equal(cgroup_set_idle(&cpu, true), -ENOENT);
    write_file(directory, "cpu.idle", "0");
    assert_int_equal(cgroup_set_idle(&cpu, true), 0);
    snprintf(path, sizeof(path), "%s/cpu.idle", directory);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    fclose(file);
    assert_string_equal(text, "1");
    remove_file(directory, "cpu.idle");
    assert_int_equal(rmdir(directory), 0);
}

/* Moves itself into the group of the directory, uses some time, and stays. */
static _Noreturn void live_in(const char *directory)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    write_file(directory, "cgroup.procs", "0");
    for (volatile unsigned i = 0; i < 20u << 20; i++)
        ;
    for (;;)
        pause();
}

/* Needs version 2 to be mounted, with or without controllers. */
TEST(test_a_group_of_version_2)
{
    char name[64], groups[80], *mountinfo _cleanup_(freep) = NULL;
    Cgroup group _cleanup_(cgroup_deinit) = {0};
    uint64_t time = 0;
    pid_t child;

    snprintf(name, sizeof(name), "/limpet-test-%d", (int)getpid());
    snprintf(groups, sizeof(groups), "0::%s\n", name);
    assert_int_equal(capture_file("/proc/self/mountinfo", 4 << 20, &mountinfo), 0);
    if (cgroup_find(groups, mountinfo, "cpuacct", &group) < 0 || mkdir(group.directory, 0755) < 0)
        skip();
    assert_true(group.unified);
    child = fork();
    if (child == 0)
        live_in(group.directory);
    while (time < 1000000)
        assert_int_equal(cgroup_read_time(&group, &time), 0);
    assert_true(cgroup_has_process(name + 1, child));
    cgroup_remove(name);
    assert_int_equal(waitpid(child, NULL, 0), child);
    while (access(group.directory, F_OK) == 0)
        cgroup_remove(name);
}

/* ---- being moved ---- */

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

TEST(test_nothing_changes)
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
