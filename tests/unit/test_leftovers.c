#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/leftovers.h"
#include "host/files/room.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

static char state_dir[64];

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", state_dir, name);
    return path;
}

static void make_directory(const char *name)
{
    assert_int_equal(mkdir(path_of(name), 0755), 0);
}

static void make_file(const char *name, size_t size)
{
    char *bytes = calloc(1, size);
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
    free(bytes);
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static int set_up(void **state)
{
    strcpy(state_dir, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(state_dir));
    make_directory("sessions");
    make_directory("outputs");
    make_directory("elsewhere");
    make_file("elsewhere/large", 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(remove_path(state_dir), 0);
    return 0;
}

static const Leftover *find(const Leftovers *leftovers, const char *id)
{
    for (size_t i = 0; i < leftovers->n; i++)
        if (strcmp(leftovers->entries[i].id, id) == 0)
            return &leftovers->entries[i];
    return NULL;
}

static void make_some(void)
{
    make_directory("sessions/one");
    make_directory("sessions/one/artifacts");
    make_file("sessions/one/artifacts/a", 100000);
    make_directory("sessions/none"); /* nothing was published */
    make_directory("outputs/two");
    make_directory("outputs/two/work");
    make_file("outputs/two/work/b", 200000);
}

TEST_WITH(test_found, set_up, tear_down)
{
    Leftovers leftovers;

    make_some();
    assert_int_equal(leftovers_find(&leftovers, state_dir), 0);
    assert_int_equal(leftovers.n, 2);
    assert_in_range(find(&leftovers, "one")->bytes, 100000, 150000);
    assert_in_range(find(&leftovers, "two")->bytes, 200000, 250000);
    leftovers_deinit(&leftovers);
}

/* Links that somebody put there for us to follow are not followed. */
TEST_WITH(test_links, set_up, tear_down)
{
    Leftovers leftovers;

    make_some();
    assert_int_equal(symlink("../elsewhere", path_of("outputs/three")), 0);
    assert_int_equal(symlink("../../../elsewhere", path_of("outputs/two/work/link")), 0);
    assert_int_equal(mkdir(path_of("sessions/four"), 0755), 0);
    assert_int_equal(symlink("../../elsewhere", path_of("sessions/four/artifacts")), 0);
    assert_int_equal(leftovers_find(&leftovers, state_dir), 0);
    assert_null(find(&leftovers, "three"));
    assert_in_range(find(&leftovers, "two")->bytes, 200000, 250000);
    for (size_t i = 0; i < leftovers.n; i++)
        assert_true(leftover_remove(&leftovers.entries[i], state_dir, NULL));
    assert_true(exists("elsewhere/large"));
    assert_false(exists("outputs/two"));
    assert_false(exists("sessions/one"));
    leftovers_deinit(&leftovers);
}

/* Another session of that name has been there since. */
TEST_WITH(test_changed_meanwhile, set_up, tear_down)
{
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    Leftovers leftovers;

    make_some();
    assert_int_equal(leftovers_find(&leftovers, state_dir), 0);
    assert_int_equal(utimensat(AT_FDCWD, path_of("sessions/one"), times, 0), 0);
    assert_false(leftover_remove(find(&leftovers, "one"), state_dir, NULL));
    assert_true(exists("sessions/one/artifacts/a"));
    assert_true(leftover_remove(find(&leftovers, "two"), state_dir, NULL));
    assert_false(leftover_remove(find(&leftovers, "two"), state_dir, NULL));
    leftovers_deinit(&leftovers);
}

TEST_WITH(test_nothing_there, set_up, tear_down)
{
    Leftovers leftovers;

    assert_int_equal(leftovers_find(&leftovers, state_dir), 0);
    assert_int_equal(leftovers.n, 0);
    leftovers_deinit(&leftovers);
    assert_int_not_equal(leftovers_find(&leftovers, "/no/such/directory"), 0);
}

/* ---- room ------------------------------------------------------------------------------------------------
 */

TEST_WITH(test_room, set_up, tear_down)
{
    Room room = room_of_disk(800000, 8);
    int directory = open(path_of("outputs"), O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(room.limit.bytes, 900000);
    assert_int_equal(room.limit.files, 9);
    make_file("outputs/a", 409600);
    assert_true(room_has(&room, directory, (Space){400000, 1}, (Space){0}));
    assert_false(room_has(&room, directory, (Space){600000, 1}, (Space){0}));
    assert_true(room_has(&room, directory, (Space){600000, 1}, (Space){409600, 1}));
    assert_false(room_has(&room, directory, (Space){1, 9}, (Space){0}));
    room_take(&room, (Space){400000, 1}, (Space){0});
    assert_int_equal(room.used.files, 3);
    assert_int_equal(unlink(path_of("outputs/a")), 0); /* by somebody else: noticed when it matters */
    assert_true(room_has(&room, directory, (Space){800000, 1}, (Space){0}));
    room_take(&room, (Space){0}, (Space){UINT64_MAX, UINT64_MAX});
    assert_int_equal(room.used.bytes, 0);
    close(directory);
}

/* ---- which of them go ---- */

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

TEST(test_by_age)
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

TEST(test_by_size)
{
    Leftover entries[3];
    Leftovers leftovers = three(entries);

    assert_int_equal(chosen(&leftovers, 0, 60), 0);
    assert_int_equal(chosen(&leftovers, 0, 59), 1);
    assert_int_equal(entries[0].bytes, 20); /* the oldest, though not the largest */
    assert_int_equal(chosen(&leftovers, 0, 39), 2);
    assert_int_equal(chosen(&leftovers, 0, 9), 3);
}

TEST(test_both)
{
    Leftover entries[3];
    Leftovers leftovers = three(entries), nothing = {0};

    assert_int_equal(chosen(&leftovers, 100, 40), 1); /* what is too old makes the room */
    assert_int_equal(chosen(&leftovers, 100, 10), 2);
    assert_int_equal(chosen(&nothing, 1, 1), 0);
}

/* A clock that was put back makes nothing old. */
TEST(test_from_the_future)
{
    Leftover entry = {.bytes = 1, .ended = NOW + 1e6};
    Leftovers leftovers = {.entries = &entry, .n = 1};

    assert_int_equal(chosen(&leftovers, 1, 0), 0);
}

TEST(test_memories)
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
