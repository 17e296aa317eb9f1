/* The store of packages, and what an installer may have left for it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/package_store.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

#define REQUEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER   "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define PLENTY  (64u << 20)
#define LATER   1e12

static const PackageQuestion question = {"", REQUEST}, other_question = {"", OTHER};
static char home[] = "/tmp/limpet-store-XXXXXX";
static int files = -1;

static void path_of(char ret[static 512], const char *name)
{
    snprintf(ret, 512, "%s/%s", home, name);
}

static void make_directory(const char *name)
{
    char path[512];

    path_of(path, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void write_text_at(const char *name, const char *text)
{
    char path[512];
    FILE *file;

    path_of(path, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* packages/BEFORE HASH AFTER */
static bool exists(const char *before, const char *hash, const char *after)
{
    char path[512];
    struct stat st;

    snprintf(path, sizeof(path), "%s/packages/%s%s%s", home, before, hash, after);
    return lstat(path, &st) == 0;
}

static int begin(void **state)
{
    char path[512];

    strcpy(home, "/tmp/limpet-store-XXXXXX");
    assert_non_null(mkdtemp(home));
    make_directory("files");
    make_directory("files/packages");
    make_directory("files/packages/base");
    write_text_at("files/packages/lock", "a==1\n");
    write_text_at("files/packages/base/a.py", "x = 1\n");
    path_of(path, "files");
    files = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return files < 0;
}

static int end(void **state)
{
    close_fd(&files);
    return remove_path(home);
}

static int take_set(PackageSet *ret, const PackageQuestion *asked)
{
    Problem problem = PROBLEM_NULL;

    *ret = (PackageSet){0};
    return package_store_take(ret, home, files, "one", asked, PLENTY, &problem);
}

static int find_set(PackageSet *ret, const PackageQuestion *asked, double max_age)
{
    Problem problem = PROBLEM_NULL;

    *ret = (PackageSet){0};
    return package_store_find(ret, home, asked, max_age, &problem);
}

TEST_WITH(test_taken_and_found, begin, end)
{
    PackageSet set _cleanup_(package_set_deinit), found _cleanup_(package_set_deinit),
        again _cleanup_(package_set_deinit);
    PackageQuestion more = {.request = REQUEST};

    assert_int_equal(take_set(&set, &question), 0);
    assert_true(package_name_valid(set.hash));
    assert_int_equal(set.lock.size, 5);
    assert_int_equal(find_set(&found, &question, 10), 0);
    assert_string_equal(found.hash, set.hash);
    assert_int_equal(found.bytes, set.bytes);
    assert_memory_equal(buf_head(&found.lock), "a==1\n", 5);
    more.before = set.hash;
    assert_int_equal(find_set(&again, &more, 10), 0);
    assert_string_equal(again.hash, set.hash);
}

TEST_WITH(test_not_found, begin, end)
{
    PackageSet set _cleanup_(package_set_deinit), found _cleanup_(package_set_deinit);

    assert_int_equal(take_set(&set, &question), 0);
    assert_int_equal(find_set(&found, &other_question, 10), -2);
    assert_int_equal(find_set(&found, &question, -1), -2);
}

/* Named by what is in it: the same is there once, anything else is another one. */
TEST_WITH(test_names, begin, end)
{
    PackageSet one _cleanup_(package_set_deinit), same _cleanup_(package_set_deinit),
        other _cleanup_(package_set_deinit);
    char path[512];

    assert_int_equal(take_set(&one, &question), 0);
    assert_int_equal(take_set(&same, &other_question), 0);
    assert_string_equal(one.hash, same.hash);
    path_of(path, "files/packages/base/a.py");
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(take_set(&other, &question), 0);
    assert_string_not_equal(one.hash, other.hash);
    assert_false(exists(".", "one", ""));
}

TEST_WITH(test_hostile_contents, begin, end)
{
    PackageSet set _cleanup_(package_set_deinit);
    char path[512];
    struct stat st;

    path_of(path, "files/packages/base/link");
    assert_int_equal(symlink("/etc/passwd", path), 0);
    path_of(path, "files/packages/base/pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    path_of(path, "files/packages/base/a.py");
    assert_int_equal(chmod(path, 06777), 0);
    assert_int_equal(take_set(&set, &question), 0);
    assert_false(exists("", set.hash, "/base/link"));
    assert_false(exists("", set.hash, "/base/pipe"));
    snprintf(path, sizeof(path), "%s/packages/%s/base/a.py", home, set.hash);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0555);
}

/* A link in place of what is expected, or nothing. */
TEST_WITH(test_hostile_places, begin, end)
{
    PackageSet set;
    char path[512];

    path_of(path, "files/packages/lock");
    assert_int_equal(unlink(path), 0);
    assert_true(take_set(&set, &question) < 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_true(take_set(&set, &question) < 0);
    assert_int_equal(remove_tree(files, "packages", NULL), 0);
    assert_true(take_set(&set, &question) < 0);
    path_of(path, "files/packages");
    assert_int_equal(symlink("/etc", path), 0);
    assert_true(take_set(&set, &question) < 0);
    assert_false(exists(".", "one", ""));
}

TEST_WITH(test_too_large, begin, end)
{
    Problem problem = PROBLEM_NULL;
    PackageSet set = {0};

    assert_true(package_store_take(&set, home, files, "one", &question, 8192, &problem) < 0);
    assert_int_equal(problem.code, ERR_TOO_LARGE);
    assert_non_null(strstr(problem.text, "packages_disk"));
    assert_false(exists(".", "one", ""));
}

static bool is_it(void *userdata, const char *hash)
{
    return strcmp(userdata, hash) == 0;
}

TEST_WITH(test_trimmed, begin, end)
{
    PackageSet one _cleanup_(package_set_deinit), other _cleanup_(package_set_deinit),
        found _cleanup_(package_set_deinit);

    assert_int_equal(take_set(&one, &question), 0);
    write_text_at("files/packages/base/b.py", "y = 1\n");
    assert_int_equal(take_set(&other, &other_question), 0);
    assert_int_equal(package_store_trim(home, 0, LATER, is_it, (char *)""), 0);
    assert_int_equal(package_store_trim(home, PLENTY, LATER, is_it, (char *)""), 0);
    assert_int_equal(package_store_trim(home, 1, LATER, is_it, one.hash), 1);
    assert_true(exists("", one.hash, ""));
    assert_false(exists("", other.hash, ""));
    assert_int_equal(find_set(&found, &other_question, 10), -2);
    package_store_trim(home, PLENTY, LATER, is_it, (char *)"");
    assert_int_equal(find_set(&found, &question, 10), 0);
}

static void set_used(const char *hash, time_t seconds)
{
    const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    char path[512];

    snprintf(path, sizeof(path), "%s/packages/%s", home, hash);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Somebody who is about to use it has found it since. */
TEST_WITH(test_used_lately, begin, end)
{
    PackageSet set _cleanup_(package_set_deinit), found _cleanup_(package_set_deinit);
    const double before = 1e9;

    assert_int_equal(take_set(&set, &question), 0);
    assert_int_equal(package_store_trim(home, 1, before, is_it, (char *)""), 0);
    set_used(set.hash, (time_t)before - 1);
    assert_int_equal(find_set(&found, &question, 10), 0);
    assert_int_equal(package_store_trim(home, 1, before, is_it, (char *)""), 0);
    set_used(set.hash, (time_t)before - 1);
    assert_int_equal(package_store_trim(home, 1, before, is_it, (char *)""), 1);
    assert_false(exists("", set.hash, ""));
}
