#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/files/beneath.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

static char base[64];
static int top; /* base/top, below which things are opened */

static void write_file(int dirfd, const char *name, const char *text)
{
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int set_up(void **state)
{
    char path[128];

    umask(077);
    strcpy(base, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof(path), "%s/top", base);
    assert_int_equal(mkdir(path, 0755), 0);
    top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(top >= 0);
    write_file(top, "../canary", "CANARY");
    return 0;
}

static int tear_down(void **state)
{
    close(top);
    assert_int_equal(remove_path(base), 0);
    return 0;
}

static void assert_refused(const char *path, int error)
{
    struct stat st;

    assert_int_equal(beneath_open(top, path, O_RDONLY, 0), error);
    assert_int_equal(beneath_open_regular(top, path, &st), error);
}

TEST_WITH(test_ways_out, set_up, tear_down)
{
    char absolute[128];

    assert_true(beneath_supported());
    snprintf(absolute, sizeof(absolute), "%s/canary", base);
    mkdirat(top, "a", 0755);
    write_file(top, "a/file", "inside");
    assert_int_equal(symlinkat(base, top, "out"), 0);
    assert_int_equal(symlinkat("a", top, "in"), 0);
    assert_int_equal(symlinkat(absolute, top, "link"), 0);
    assert_int_equal(symlinkat("/proc/self/root", top, "a/magic"), 0);

    assert_refused("../canary", -EXDEV);
    assert_refused("a/../../canary", -EXDEV);
    assert_refused(absolute, -EXDEV);
    assert_refused("out/canary", -ELOOP);
    assert_refused("in/file", -ELOOP);
    assert_refused("link", -ELOOP);
    assert_refused("a/magic/etc/passwd", -ELOOP);
    assert_refused("a/none", -ENOENT);
    assert_refused("a/file/more", -ENOTDIR);

    struct stat st;
    _cleanup_(closep) int fd = beneath_open_regular(top, "a/file", &st);
    assert_true(fd >= 0);
    assert_int_equal(st.st_size, 6);
}

TEST_WITH(test_other_filesystem, set_up, tear_down)
{
    struct stat dev, shm;
    _cleanup_(closep) int fd = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (stat("/dev", &dev) < 0 || stat("/dev/shm", &shm) < 0 || dev.st_dev == shm.st_dev)
        skip();
    assert_int_equal(beneath_open(fd, "shm", O_PATH, 0), -EXDEV);
}

TEST_WITH(test_kinds, set_up, tear_down)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_(closep) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    _cleanup_(closep) int dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    mkdirat(top, "a", 0755);
    assert_int_equal(mkfifoat(top, "fifo", 0644), 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/top/socket", base);
    assert_int_equal(bind(listener, (void *)&address, sizeof(address)), 0);
    assert_int_equal(symlinkat("nowhere", top, "link"), 0);

    assert_int_equal(beneath_open_regular(top, "a", &st), -EISDIR);
    assert_int_equal(beneath_open_regular(top, "fifo", &st), -ENXIO);
    assert_int_equal(beneath_open_regular(top, "socket", &st), -ENXIO);
    assert_int_equal(beneath_open_regular(dev, "null", &st), -ENXIO);

    _cleanup_(closep) int handle = beneath_find(top, "link", &st);
    assert_true(handle >= 0);
    assert_true(S_ISLNK(st.st_mode));
}

/* A lease makes whoever opens the file wait for its holder. */
TEST_WITH(test_lease, set_up, tear_down)
{
    struct stat st;

    signal(SIGIO, SIG_IGN);
    write_file(top, "file", "text");
    _cleanup_(closep) int holder = openat(top, "file", O_RDWR | O_CLOEXEC);
    if (fcntl(holder, F_SETLEASE, F_WRLCK) < 0)
        skip();
    assert_int_equal(beneath_open_regular(top, "file", &st), -EWOULDBLOCK);
}

static atomic_bool stop;

/* Exchanges top/a, a directory, with top/b, a link to the canary's directory. */
static void *exchange(void *userdata)
{
    while (!stop)
        renameat2(top, "a", top, "b", RENAME_EXCHANGE);
    return NULL;
}

/* Proves: security: planted paths and links */
TEST_WITH(test_exchange_race, set_up, tear_down)
{
    unsigned opened = 0, refused = 0;
    pthread_t thread;

    mkdirat(top, "a", 0755);
    write_file(top, "a/canary", "inside");
    assert_int_equal(symlinkat(base, top, "b"), 0);
    stop = false;
    assert_int_equal(pthread_create(&thread, NULL, exchange, NULL), 0);
    for (unsigned i = 0; i < 2000000 && (opened < 20000 || refused < 20000); i++) {
        char text[8] = "";
        struct stat st;
        int fd = beneath_open_regular(top, i % 2 ? "a/canary" : "b/canary", &st);

        opened += fd >= 0;
        refused += fd < 0;
        if (fd < 0)
            continue;
        assert_true(read(fd, text, sizeof(text) - 1) >= 0);
        assert_string_equal(text, "inside");
        close(fd);
    }
    stop = true;
    pthread_join(thread, NULL);
    assert_true(opened > 0 && refused > 0);
}

TEST_WITH(test_mkdirs, set_up, tear_down)
{
    struct stat st;
    uid_t uid = geteuid() == 0 ? 20001 : geteuid();

    mkdirat(top, "old", 0711);
    assert_int_equal(symlinkat(base, top, "out"), 0);
    write_file(top, "file", "");

    _cleanup_(closep) int fd = beneath_mkdirs(top, "old//new/er", 01777, uid, (gid_t)-1);
    assert_true(fd >= 0);
    assert_int_equal(fstatat(top, "old", &st, 0), 0);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(fstatat(top, "old/new/er", &st, 0), 0);
    assert_int_equal(st.st_uid, uid);
    assert_int_equal(st.st_mode & 07777, 01777);

    assert_int_equal(beneath_mkdirs(top, "out/new", 0755, uid, (gid_t)-1), -ENOTDIR);
    assert_int_equal(beneath_mkdirs(top, "file/new", 0755, uid, (gid_t)-1), -ENOTDIR);
    assert_int_equal(beneath_mkdirs(top, "../new", 0755, uid, (gid_t)-1), -EXDEV);
    _cleanup_(closep) int same = beneath_mkdirs(top, "", 0755, uid, (gid_t)-1);
    assert_true(same >= 0);
}

static void make_deep(int depth)
{
    int fd = dup(top);

    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        write_file(fd, "file", "");
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fchmod(fd, i ? 0000 : 0755);
        close(fd);
        fd = next;
    }
    close(fd);
}

TEST_WITH(test_remove_deep, set_up, tear_down)
{
    uint64_t count;

    make_deep(6000);
    assert_int_equal(remove_tree(top, "d", &count), 0);
    assert_int_equal(count, 6000 + 5999);
    assert_int_equal(faccessat(top, "d", F_OK, 0), -1);
}

TEST_WITH(test_remove_wide, set_up, tear_down)
{
    char name[64];
    uint64_t count;

    mkdirat(top, "wide", 0755);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "wide/.remove-%x", i); /* names it would like to use */
        mkdirat(top, name, 0755);
        for (int j = 0; j < 3; j++) {
            snprintf(name, sizeof(name), "wide/.remove-%x/%d", i, j);
            mkdirat(top, name, i % 2 ? 0 : 0755);
            if (i % 2 == 0) {
                snprintf(name, sizeof(name), "wide/.remove-%x/%d/file", i, j);
                write_file(top, name, "");
            }
        }
    }
    assert_int_equal(symlinkat(base, top, "wide/out"), 0);
    assert_int_equal(mkfifoat(top, "wide/fifo", 0644), 0);
    assert_int_equal(remove_tree(top, "wide", &count), 0);
    assert_int_equal(faccessat(top, "wide", F_OK, 0), -1);
    assert_int_equal(faccessat(top, "../canary", F_OK, 0), 0);
    assert_in_range(count, 1 + 300 + 450 + 2, 1 + 300 + 900 + 450 + 2);
}

TEST_WITH(test_remove_other, set_up, tear_down)
{
    uint64_t count;

    write_file(top, "file", "");
    assert_int_equal(symlinkat(base, top, "out"), 0);
    assert_int_equal(remove_tree(top, "file", &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(remove_tree(top, "out", &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(remove_tree(top, "none", &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(faccessat(top, "../canary", F_OK, 0), 0);
}
