/* Copies of /session: what they keep, their budget, and that a restore that is cut off anywhere can be ended.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/snapshot.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

static char state_dir[64];
static SessionDir directory;
static Problem problem;

static int set_up(void **state)
{
    problem = PROBLEM_NULL;
    strcpy(state_dir, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(state_dir));
    assert_int_equal(sessiondir_make(&directory, state_dir, "s", false, NULL, &problem), 0);
    assert_int_equal(sessiondir_fill(&directory, NULL, &problem), 0);
    return 0;
}

static int tear_down(void **state)
{
    sessiondir_remove(&directory, NULL);
    assert_int_equal(remove_path(state_dir), 0);
    return 0;
}

static void make_directory(const char *name)
{
    assert_int_equal(mkdirat(directory.files_fd, name, 0755), 0);
}

static void put(const char *name, const char *content)
{
    int fd = openat(directory.files_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
}

/* "" when there is no such file. */
static const char *got(const char *name)
{
    static char content[64];
    int fd = openat(directory.files_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, content, sizeof(content) - 1);

    closep(&fd);
    assert_true(n >= 0);
    content[n] = '\0';
    return content;
}

static bool is_there(const char *name)
{
    return faccessat(directory.files_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Takes one as "c1", named "one". */
static void take_one(uint64_t budget)
{
    int store _cleanup_(closep) = snapshot_store(&directory, true);
    uint64_t bytes;

    assert_true(store >= 0);
    assert_int_equal(snapshot_take(store, directory.files_fd, budget, &bytes, &problem), 0);
    assert_int_equal(snapshot_keep(store, "c1", "one", bytes), 0);
}

static void stage_one(void)
{
    int store _cleanup_(closep) = snapshot_store(&directory, false);
    char entry[SNAPSHOT_ENTRY_SIZE];

    assert_true(snapshot_find(store, "one", entry));
    assert_true(snapshot_find(store, "c1", entry));
    assert_false(snapshot_find(store, "", entry));
    assert_int_equal(snapshot_stage(store, entry, directory.files_fd, &problem), 0);
}

static void make_old(void)
{
    make_directory("d");
    put("d/file", "old");
    put("same", "old");
    put("artifacts/a", "old");
}

static void make_new(void)
{
    put("d/file", "new");
    put("same", "new");
    put("artifacts/a", "new");
    make_directory("later");
    put("later/file", "new");
    make_directory("artifacts/later");
    put(".limpet/ours", "kept");
}

static void assert_is(const char *content)
{
    bool is_new = strcmp(content, "new") == 0;

    assert_string_equal(got("d/file"), content);
    assert_string_equal(got("same"), content);
    assert_string_equal(got("artifacts/a"), content);
    assert_int_equal(is_there("later/file"), is_new);
    assert_int_equal(is_there("artifacts/later"), is_new);
    assert_string_equal(got(".limpet/ours"), "kept");
}

static void assert_nothing_left(void)
{
    assert_false(is_there(".limpet/restore.stage"));
    assert_false(is_there(".limpet/restore.new"));
    assert_false(is_there(".limpet/restore.in"));
    assert_false(is_there(".limpet/restore.out"));
}

TEST_WITH(test_there_and_back, set_up, tear_down)
{
    make_old();
    take_one(UINT64_MAX);
    make_new();
    stage_one();
    assert_is("new");
    assert_int_equal(snapshot_restore(directory.files_fd, &problem), 0);
    assert_is("old");
    assert_nothing_left();
}

TEST_WITH(test_a_stage_nobody_asked_for_changes_nothing, set_up, tear_down)
{
    make_old();
    take_one(UINT64_MAX);
    make_new();
    stage_one();
    snapshot_recover(directory.files_fd);
    assert_is("new");
    assert_nothing_left();
}

static void rename_in(const char *from, const char *to)
{
    assert_int_equal(renameat(directory.files_fd, from, directory.files_fd, to), 0);
}

/* The states that a crash may leave, made by hand: it is asked for; some of the old has moved out; all of it
 * has; some of the new has moved in. */
TEST_WITH(test_a_restore_cut_off_anywhere_is_ended, set_up, tear_down)
{
    for (int at = 0; at < 4; at++) {
        make_old();
        take_one(UINT64_MAX);
        make_new();
        stage_one();
        rename_in(".limpet/restore.stage", ".limpet/restore.new");
        if (at >= 1) {
            make_directory(".limpet/restore.out");
            rename_in("d", ".limpet/restore.out/d");
        }
        if (at >= 2) {
            make_directory(".limpet/restore.out/artifacts");
            rename_in("artifacts/a", ".limpet/restore.out/artifacts/a");
            rename_in("artifacts/later", ".limpet/restore.out/artifacts/later");
            rename_in("same", ".limpet/restore.out/same");
            rename_in("later", ".limpet/restore.out/later");
            rename_in(".limpet/restore.new", ".limpet/restore.in");
        }
        if (at >= 3)
            rename_in(".limpet/restore.in/same", "same");
        snapshot_recover(directory.files_fd);
        assert_is("old");
        assert_nothing_left();
        tear_down(state);
        set_up(state);
    }
}

/* A name that code makes while the old is moving out is not in the way of what moves in. */
TEST_WITH(test_a_name_in_the_way, set_up, tear_down)
{
    make_old();
    take_one(UINT64_MAX);
    make_new();
    stage_one();
    make_directory(".limpet/restore.out");
    put(".limpet/restore.out/same", "moved before");
    rename_in(".limpet/restore.stage", ".limpet/restore.in");
    snapshot_recover(directory.files_fd);
    assert_string_equal(got("same"), "old");
    assert_string_equal(got("d/file"), "old");
    assert_nothing_left();
}

TEST_WITH(test_kinds_and_modes, set_up, tear_down)
{
    struct stat st;
    char target[16] = "";

    make_directory("d");
    put("d/script", "#!");
    assert_int_equal(fchmodat(directory.files_fd, "d/script", 04750, 0), 0);
    assert_int_equal(fchmodat(directory.files_fd, "d", 0500, 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", directory.files_fd, "link"), 0);
    assert_int_equal(mkfifoat(directory.files_fd, "fifo", 0600), 0);
    take_one(UINT64_MAX);
    assert_int_equal(unlinkat(directory.files_fd, "link", 0), 0);
    stage_one();
    assert_int_equal(snapshot_restore(directory.files_fd, &problem), 0);
    assert_int_equal(fstatat(directory.files_fd, "d/script", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0750); /* not setuid */
    assert_int_equal(fstatat(directory.files_fd, "d", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0500);
    assert_int_equal(readlinkat(directory.files_fd, "link", target, sizeof(target) - 1), 11);
    assert_string_equal(target, "/etc/passwd");
    assert_false(is_there("fifo"));
}

TEST_WITH(test_budget, set_up, tear_down)
{
    int store _cleanup_(closep) = snapshot_store(&directory, true);
    char large[20000];
    uint64_t bytes;

    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    put("large", large);
    assert_int_equal(snapshot_take(store, directory.files_fd, 6000, &bytes, &problem), -EPROTO);
    assert_int_equal(problem.code, ERR_TOO_LARGE);
    take_one(40000);
    problem = PROBLEM_NULL; /* what the first takes is not there for a second */
    assert_true(snapshot_take(store, directory.files_fd, 40000, &bytes, &problem) == -EPROTO);
    assert_int_equal(problem.code, ERR_TOO_LARGE);
}

TEST_WITH(test_nothing_is_copied_of_what_does_not_fit, set_up, tear_down)
{
    int to _cleanup_(closep) = snapshot_store(&directory, true);
    uint64_t bytes;

    make_directory("d");
    put("d/a", "a");
    put("d/b", "b");
    put("c", "c");
    assert_int_equal(treecopy(directory.files_fd, to, ".limpet", 19000, &bytes, &problem), -EPROTO);
    assert_int_equal(problem.code, ERR_TOO_LARGE);
    assert_true(bytes <= 3 * 4096); /* names */
}

TEST_WITH(test_depth, set_up, tear_down)
{
    int store _cleanup_(closep) = snapshot_store(&directory, true);
    int at _cleanup_(closep) = dup(directory.files_fd);
    uint64_t bytes;

    for (unsigned i = 0; i < 200; i++) {
        int next;
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    assert_int_equal(snapshot_take(store, directory.files_fd, UINT64_MAX, &bytes, &problem), -EPROTO);
    assert_int_equal(problem.code, ERR_TOO_LARGE);
}
