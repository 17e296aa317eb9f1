#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#include "host/files/access.h"
#include "tests/support/cmocka.h"

#define ALICE 61001u /* unknown to the user database */
#define BOB   61002u

static Loop *loop;
static char home[] = "/tmp/limpet-open-as-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", home, name);
    return path;
}

/* A file of that user and mode. */
static void make(const char *name, uid_t user, mode_t mode)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fchown(fd, user, user), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void make_directory(const char *name, uid_t user, mode_t mode)
{
    assert_int_equal(mkdir(path_of(name), 0700), 0);
    assert_int_equal(chown(path_of(name), user, user), 0);
    assert_int_equal(chmod(path_of(name), mode), 0);
}

static const char *const names[] = {"bobs",   "open",  "fifo",      "link",    "secret/file",
                                    "secret", "shown", "list-only", "planted", "for-writing"};

static int set_up(void **state)
{
    assert_int_equal(loop_new(&loop), 0);
    if (geteuid() != 0 || !mkdtemp(home))
        return 0;
    assert_int_equal(chmod(home, 0755), 0);
    make("bobs", BOB, 0600);
    make("open", BOB, 0644);
    make("for-writing", ALICE, 0600);
    make_directory("secret", BOB, 0700);
    make("secret/file", BOB, 0644);
    make_directory("shown", BOB, 0755);
    make_directory("list-only", BOB, 0744);
    assert_int_equal(mkfifo(path_of("fifo"), 0666), 0);
    assert_int_equal(symlink("bobs", path_of("link")), 0);
    return symlink("/proc/self/fd/0", path_of("planted"));
}

static int tear_down(void **state)
{
    loop_free(loop);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        remove(path_of(names[i]));
    return rmdir(home) < 0 && geteuid() == 0;
}

static void on_opened(void *userdata, int fd)
{
    *(int *)userdata = fd;
    loop_stop(loop, 0);
}

static int open_and_wait(uid_t user, const char *path, int flags)
{
    int fd, r = open_as(loop, user, path, flags, on_opened, &fd);

    if (r == 0)
        loop_run(loop);
    return r < 0 ? r : fd;
}

/* Opens and closes again; a descriptor counts as 0. */
static int opened(uid_t user, const char *name, int flags)
{
    int fd = open_and_wait(user, path_of(name), flags);

    if (fd < 0)
        return fd;
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    return 0;
}

static void needs_root(void)
{
    if (geteuid() != 0)
        skip();
}

TEST(test_files)
{
    needs_root();
    assert_int_equal(opened(ALICE, "bobs", O_RDONLY), -EACCES);
    assert_int_equal(opened(BOB, "bobs", O_RDONLY), 0);
    assert_int_equal(opened(0, "bobs", O_RDONLY), 0);
    assert_int_equal(opened(ALICE, "open", O_RDONLY), 0);
    assert_int_equal(opened(ALICE, "open", O_WRONLY), -EACCES);
    assert_int_equal(opened(ALICE, "for-writing", O_WRONLY), 0);
    assert_int_equal(opened(ALICE, "link", O_RDONLY), -EACCES);
    assert_int_equal(opened(BOB, "link", O_RDONLY), 0);
    assert_int_equal(opened(ALICE, "secret/file", O_RDONLY), -EACCES);
    assert_int_equal(opened(ALICE, "none", O_RDONLY), -ENOENT);
}

/* A directory that may be listed and not entered has nothing to show. */
TEST(test_directories)
{
    needs_root();
    assert_int_equal(opened(ALICE, "shown", O_RDONLY | O_DIRECTORY), 0);
    assert_int_equal(opened(ALICE, "secret", O_RDONLY | O_DIRECTORY), -EACCES);
    assert_int_equal(opened(ALICE, "list-only", O_RDONLY | O_DIRECTORY), -EACCES);
    assert_int_equal(opened(ALICE, "open", O_RDONLY | O_DIRECTORY), -ENOTDIR);
    assert_int_equal(open_and_wait(ALICE, "relative", O_RDONLY), -EINVAL);
}

TEST(test_nothing_else)
{
    needs_root();
    assert_int_equal(opened(ALICE, "fifo", O_RDONLY), -ENXIO);
    assert_int_equal(open_and_wait(ALICE, "/dev/null", O_RDONLY), -ENXIO);
    assert_int_equal(opened(ALICE, "planted", O_RDONLY), -ELOOP);
    assert_int_equal(open_and_wait(0, "/proc/self/fd/0", O_RDONLY), -ELOOP);
}

TEST(test_rights_are_as_before)
{
    needs_root();
    assert_int_equal(opened(ALICE, "bobs", O_RDONLY), -EACCES);
    assert_int_equal(setfsuid((uid_t)-1), 0);
    assert_int_equal(access(path_of("bobs"), R_OK | W_OK), 0);
}

int main(void)
{
    return tests_run(set_up, tear_down);
}
