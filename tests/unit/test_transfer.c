#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/transfer.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

static char base[64];
static int session;
static Problem problem;
static uint64_t size;

static int set_up(void **state)
{
    umask(077);
    strcpy(base, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(base));
    session = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(session, TRANSFER_DIRECTORY, 0755), 0);
    problem = PROBLEM_NULL;
    return 0;
}

static int tear_down(void **state)
{
    close(session);
    assert_int_equal(remove_path(base), 0);
    return 0;
}

static Text text(const char *s)
{
    return (Text){.data = s, .size = strlen(s)};
}

static int put(const char *path, uint64_t offset, const char *data, bool last)
{
    return transfer_put(session, text(path), offset, text(data), last, (uid_t)-1, (gid_t)-1, "client/1",
                        &size, &problem);
}

static void assert_put_refused(const char *path, ErrorCode code)
{
    problem = PROBLEM_NULL;
    assert_int_equal(put(path, 0, "x", true), -EPROTO);
    assert_int_equal(problem.code, code);
    assert_true(strlen(problem.text) > 0);
}

static void assert_contents(const char *path, const char *expected)
{
    Buf out = BUF_NULL;

    assert_int_equal(transfer_get(session, text(path), 0, UINT64_MAX, &out, &size, &problem), 0);
    assert_int_equal(size, strlen(expected));
    assert_int_equal(out.size, size);
    assert_memory_equal(buf_head(&out), expected, size);
    buf_deinit(&out);
}

TEST_WITH(test_round_trip, set_up, tear_down)
{
    struct stat st;

    assert_int_equal(put("/session/in/put.txt", 0, "one ", false), 0);
    assert_int_equal(size, 4);
    assert_int_equal(faccessat(session, "in", F_OK, 0), -1); /* not there before it is whole */
    assert_int_equal(put("/session/in/put.txt", 4, "two", true), 0);
    assert_int_equal(size, 7);
    assert_contents("in/put.txt", "one two");
    assert_contents("/session//./in/put.txt", "one two");
    assert_int_equal(fstatat(session, "in/put.txt", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644);

    assert_int_equal(put("in/put.txt", 0, "", true), 0);
    assert_contents("in/put.txt", "");
}

TEST_WITH(test_owner, set_up, tear_down)
{
    struct stat st;

    if (geteuid() != 0)
        skip();
    assert_int_equal(
        transfer_put(session, text("new/file"), 0, text("x"), true, 20001, 20002, "k", &size, &problem), 0);
    assert_int_equal(fstatat(session, "new", &st, 0), 0);
    assert_int_equal(st.st_uid, 20001);
    assert_int_equal(fstatat(session, "new/file", &st, 0), 0);
    assert_int_equal(st.st_uid, 20001);
    assert_int_equal(st.st_gid, 20002);
}

TEST_WITH(test_get_in_parts, set_up, tear_down)
{
    Buf out = BUF_NULL;

    assert_int_equal(put("file", 0, "0123456789", true), 0);
    assert_int_equal(transfer_get(session, text("file"), 3, 4, &out, &size, &problem), 0);
    assert_int_equal(size, 10);
    assert_int_equal(out.size, 4);
    assert_memory_equal(buf_head(&out), "3456", 4);
    assert_int_equal(transfer_get(session, text("file"), 8, 4, &out, &size, &problem), 0);
    assert_int_equal(out.size, 6);
    assert_int_equal(transfer_get(session, text("file"), 10, 4, &out, &size, &problem), 0);
    assert_int_equal(transfer_get(session, text("file"), UINT64_MAX, 4, &out, &size, &problem), 0);
    assert_int_equal(out.size, 6);
    buf_deinit(&out);
}

TEST_WITH(test_bad_paths, set_up, tear_down)
{
    char longer[LIMIT_PATH + 2];

    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_put_refused(longer, ERR_BAD_REQUEST);
    longer[300] = '\0';
    assert_put_refused(longer, ERR_BAD_REQUEST);
    assert_put_refused("", ERR_BAD_REQUEST);
    assert_put_refused("/", ERR_BAD_REQUEST);
    assert_put_refused("/session", ERR_BAD_REQUEST);
    assert_put_refused("/session/", ERR_BAD_REQUEST);
    assert_put_refused("/sessions/x", ERR_BAD_REQUEST);
    assert_put_refused("/etc/x", ERR_BAD_REQUEST);
    assert_put_refused("..", ERR_BAD_REQUEST);
    assert_put_refused("a/../b", ERR_BAD_REQUEST);
    assert_put_refused(".limpet", ERR_BAD_REQUEST);
    assert_put_refused("./.limpet//x", ERR_BAD_REQUEST);
    assert_int_equal(put(".limpet-is-not-it", 0, "x", true), 0);

    Text zero = {.data = "a\0b", .size = 3};
    assert_int_equal(
        transfer_put(session, zero, 0, text("x"), true, (uid_t)-1, (gid_t)-1, "k", &size, &problem), -EPROTO);
}

TEST_WITH(test_offsets, set_up, tear_down)
{
    assert_int_equal(put("file", 4, "gap", false), -EPROTO);
    assert_int_equal(problem.code, ERR_UNAVAILABLE); /* another controller may have had what is before it */
    assert_int_equal(put("file", 0, "0123", false), 0);
    assert_int_equal(put("file", 2, "overlap", false), -EPROTO);
    assert_int_equal(problem.code, ERR_BAD_REQUEST);
    assert_int_equal(put("file", 5, "gap", false), -EPROTO);
    assert_int_equal(put("file", 4, "45", false), 0);
    assert_int_equal(put("file", 0, "again", true), 0); /* 0 begins anew */
    assert_contents("file", "again");
    assert_int_equal(put("file", 5, "over", true), -EPROTO); /* that upload has ended */
}

TEST_WITH(test_planted, set_up, tear_down)
{
    Buf out = BUF_NULL;

    assert_int_equal(mkdirat(session, "directory", 0755), 0);
    assert_int_equal(symlinkat("/tmp", session, "out"), 0);
    assert_int_equal(symlinkat("/etc", session, "etc"), 0);
    assert_int_equal(symlinkat("/etc/passwd", session, "link"), 0);
    assert_int_equal(mkfifoat(session, "fifo", 0644), 0);

    static const char *const none[] = {"none",       "none/x", "directory", "out/x",
                                       "etc/passwd", "link",   "fifo",      "fifo/x"};
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        problem = PROBLEM_NULL;
        assert_int_equal(transfer_get(session, text(none[i]), 0, 1, &out, &size, &problem), -EPROTO);
        assert_int_equal(problem.code, ERR_NO_SUCH_FILE);
    }
    assert_int_equal(out.size, 0);
    assert_put_refused("directory", ERR_BAD_REQUEST);
    assert_put_refused("out/limpet-test-canary", ERR_BAD_REQUEST);
    assert_put_refused("fifo/x", ERR_BAD_REQUEST);
    assert_int_equal(access("/tmp/limpet-test-canary", F_OK), -1);

    assert_int_equal(put("link", 0, "mine", true), 0); /* takes the link's place */
    assert_contents("link", "mine");
    assert_int_equal(put("fifo", 0, "mine", true), 0);
    assert_contents("fifo", "mine");
}
