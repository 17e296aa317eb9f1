/* clients/c/address.c: where the controller's socket is, and whether its place can be trusted. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clients/c/address.h"
#include "tests/support/cmocka.h"

#define NOBODY 65534

static char temporary[64];

/* Every test begins as an ordinary user, with nothing in the environment but the temporary directory. */
static int setup(void **state)
{
    strcpy(temporary, "/tmp/test_client_address.XXXXXX");
    if (!mkdtemp(temporary) || chmod(temporary, 01777) < 0)
        return -1;
    unsetenv("LIMPET_SOCKET");
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", temporary, 1);
    return geteuid() == 0 ? seteuid(NOBODY) : 0;
}

static int teardown(void **state)
{
    char directory[128];

    if (getuid() == 0 && seteuid(0) < 0)
        return -1;
    snprintf(directory, sizeof(directory), "%s/limpet-%u", temporary, getuid() == 0 ? NOBODY : getuid());
    if (unlink(directory) < 0)
        rmdir(directory);
    return rmdir(temporary);
}

static void expect_path(const char *given, const char *path)
{
    _cleanup_(address_deinit) Address address = ADDRESS_NULL;
    Problem problem = PROBLEM_NULL;

    assert_int_equal(address_init(&address, given, &problem), 0);
    assert_string_equal(address.path, path);
}

TEST_WITH(test_order, setup, teardown)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/limpet-%u/limpet.sock", temporary, geteuid());
    expect_path(NULL, path);
    setenv("LIMPET_SOCKET", "", 1);
    setenv("XDG_RUNTIME_DIR", "", 1);
    expect_path(NULL, path);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    expect_path(NULL, "/run/user/7/limpet/limpet.sock");
    setenv("LIMPET_SOCKET", "/here", 1);
    expect_path(NULL, "/here");
    expect_path("/there", "/there");
}

TEST_WITH(test_root, setup, teardown)
{
    if (getuid() != 0)
        skip();
    assert_int_equal(seteuid(0), 0);
    setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
    expect_path(NULL, "/run/limpet/limpet.sock");
}

TEST_WITH(test_too_long, setup, teardown)
{
    char path[200];
    Address address = ADDRESS_NULL;
    Problem problem = PROBLEM_NULL;

    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = 0;
    assert_int_equal(address_init(&address, path, &problem), -EPROTO);
    assert_int_equal(problem.code, ERR_BAD_REQUEST);
    path[107] = 0;
    assert_int_equal(address_init(&address, path, &problem), 0);
    address_deinit(&address);
}

/* The outcome of address_check() with the directory as `make` left it. */
static int check(void (*make)(const char *directory))
{
    _cleanup_(address_deinit) Address address = ADDRESS_NULL;
    Problem problem = PROBLEM_NULL;
    char directory[128];

    assert_int_equal(address_init(&address, NULL, &problem), 0);
    snprintf(directory, sizeof(directory), "%s/limpet-%u", temporary, geteuid());
    if (make)
        make(directory);
    return address_check(&address, &problem) == -EPROTO ? (int)problem.code
                                                        : address_check(&address, &problem);
}

static void make_private(const char *directory)
{
    assert_int_equal(mkdir(directory, 0700), 0);
}

static void make_open(const char *directory)
{
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(chmod(directory, 0750), 0);
}

static void make_link(const char *directory)
{
    assert_int_equal(symlink("/", directory), 0);
}

static void make_of_another(const char *directory)
{
    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chown(directory, 1234, 1234), 0);
    assert_int_equal(seteuid(NOBODY), 0);
}

TEST_WITH(test_directory_is_missing, setup, teardown)
{
    assert_int_equal(check(NULL), -ENOENT);
}

TEST_WITH(test_directory_is_private, setup, teardown)
{
    assert_int_equal(check(make_private), 0);
}

TEST_WITH(test_directory_is_open, setup, teardown)
{
    assert_int_equal(check(make_open), ERR_DENIED);
}

TEST_WITH(test_directory_is_a_link, setup, teardown)
{
    assert_int_equal(check(make_link), ERR_DENIED);
}

TEST_WITH(test_directory_is_of_another, setup, teardown)
{
    if (getuid() != 0)
        skip();
    assert_int_equal(check(make_of_another), ERR_DENIED);
}

TEST_WITH(test_other_places_are_not_checked, setup, teardown)
{
    setenv("LIMPET_SOCKET", "/", 1);
    assert_int_equal(check(NULL), 0);
}
