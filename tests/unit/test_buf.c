#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/problem.h"
#include "tests/support/cmocka.h"

TEST(appends_and_consumes)
{
    Buf buf = BUF_NULL;

    assert_null(buf_head(&buf));
    assert_int_equal(buf_append(&buf, "hello ", 6), 0);
    assert_int_equal(buf_append(&buf, NULL, 0), 0);
    assert_int_equal(buf_append(&buf, "world", 5), 0);
    assert_int_equal(buf.size, 11);
    assert_memory_equal(buf_head(&buf), "hello world", 11);
    buf_consume(&buf, 6);
    assert_int_equal(buf.size, 5);
    assert_memory_equal(buf_head(&buf), "world", 5);
    buf_consume(&buf, 5);
    assert_int_equal(buf.size, 0);
    assert_int_equal(buf.start, 0);
    buf_deinit(&buf);
    assert_null(buf.data);
}

/* A byte stream through the buffer comes out as it went in, and the memory stays near what is unread. */
TEST(streams_in_bounded_memory)
{
    Buf buf = BUF_NULL;
    uint32_t in = 0, out = 0;

    for (int round = 0; round < 5000; round++) {
        for (int i = 0; i < 1 + round % 7; i++, in++)
            assert_int_equal(buf_append(&buf, &in, sizeof(in)), 0);
        while (in - out > 20) {
            assert_memory_equal(buf_head(&buf), &out, sizeof(out));
            buf_consume(&buf, sizeof(out));
            out++;
        }
    }
    assert_true(buf.capacity <= 1024);
    buf_deinit(&buf);
}

TEST(stops_at_limit)
{
    Buf buf = {.limit = 10};

    assert_int_equal(buf_append(&buf, "0123456", 7), 0);
    assert_int_equal(buf_append(&buf, "7890", 4), -ENOBUFS);
    assert_null(buf_reserve(&buf, 4));
    assert_int_equal(buf.size, 7);
    assert_int_equal(buf_append(&buf, "789", 3), 0);
    assert_memory_equal(buf_head(&buf), "0123456789", 10);
    assert_int_equal(buf_append(&buf, "x", 1), -ENOBUFS);
    buf_consume(&buf, 9);
    assert_int_equal(buf_append(&buf, "abcdefghi", 9), 0);
    assert_memory_equal(buf_head(&buf), "9abcdefghi", 10);
    assert_true(buf.capacity <= 256);
    buf_deinit(&buf);
}

TEST(refuses_what_cannot_be)
{
    Buf buf = BUF_NULL;

    assert_int_equal(buf_append(&buf, "x", 1), 0);
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_null(buf_reserve(&buf, SIZE_MAX - 1));
    assert_int_equal(buf.size, 1);
    assert_memory_equal(buf_head(&buf), "x", 1);
    buf_deinit(&buf);
}

TEST(large_memory_is_given_back)
{
    Buf buf = {.limit = 8 << 20};

    assert_non_null(buf_reserve(&buf, 4 << 20));
    memset(buf.data, 'x', 4 << 20);
    buf_commit(&buf, 4 << 20);
    buf_consume(&buf, 1);
    assert_non_null(buf.data);
    buf_consume(&buf, buf.size);
    assert_null(buf.data);
    assert_int_equal(buf.capacity, 0);
    assert_int_equal(buf.limit, 8 << 20);
    assert_int_equal(buf_append(&buf, "again", 5), 0);
    buf_deinit(&buf);
}

/* Twice the memory, and another copy, is not what a few bytes behind a megabyte are worth. */
TEST(little_behind_something_large_moves_nothing)
{
    static const uint8_t large[1 << 20];
    Buf buf = BUF_NULL;
    const uint8_t *data;

    assert_int_equal(buf_append(&buf, "head", 4), 0);
    assert_int_equal(buf_append(&buf, large, sizeof(large)), 0);
    data = buf.data;
    assert_int_equal(buf_append(&buf, "and a few more", 14), 0);
    assert_ptr_equal(buf.data, data);
    assert_true(buf.capacity < 3 * sizeof(large) / 2);
    buf_deinit(&buf);
}

TEST(reads_descriptors)
{
    Buf buf = {.limit = 8};
    int ends[2];

    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    assert_int_equal(buf_read_fd(&buf, ends[0], 100), -EAGAIN);
    assert_int_equal(write(ends[1], "0123456789", 10), 10);
    assert_int_equal(buf_read_fd(&buf, ends[0], 3), 3);
    assert_int_equal(buf_read_fd(&buf, ends[0], 100), 5);
    assert_memory_equal(buf_head(&buf), "01234567", 8);
    assert_int_equal(buf_read_fd(&buf, ends[0], 100), -ENOBUFS);
    buf_consume(&buf, 8);
    assert_int_equal(buf_read_fd(&buf, ends[0], 100), 2);
    close(ends[1]);
    assert_int_equal(buf_read_fd(&buf, ends[0], 100), 0);
    close(ends[0]);
    assert_int_equal(buf_read_fd(&buf, ends[0], 100), -EBADF);
    buf_deinit(&buf);
}

TEST(problems_are_bounded_and_whole)
{
    Problem problem = PROBLEM_NULL;
    char text[3000];

    assert_int_equal(problem_set(&problem, ERR_BUSY, "%d calls wait", 64), -EPROTO);
    assert_int_equal(problem.code, ERR_BUSY);
    problem_prefix(&problem, "session %s", "a");
    assert_string_equal(problem.text, "session a: 64 calls wait");
    assert_int_equal(problem.code, ERR_BUSY);

    /* Cut between characters, wherever the end falls. */
    for (size_t shift = 0; shift < 4; shift++) {
        for (size_t i = 0; i < sizeof(text) - 1; i++)
            text[i] = i < shift ? 'a' : "\xf0\x9f\x90\x9a"[(i - shift) % 4];
        text[sizeof(text) - 1] = '\0';
        problem_set(&problem, ERR_INTERNAL, "%s", text);
        assert_int_equal((strlen(problem.text) - shift) % 4, 0);
        assert_true(strlen(problem.text) > PROBLEM_TEXT_MAX - 5);
        problem_prefix(&problem, "context");
        assert_int_equal((strlen(problem.text) - shift - strlen("context: ")) % 4, 0);
    }
    memset(text, 'x', sizeof(text) - 1);
    problem_prefix(&problem, "%s", text);
    assert_int_equal(strlen(problem.text), PROBLEM_TEXT_MAX - 1);
}

TEST(errors_have_names)
{
    assert_string_equal(error_name(ERR_BAD_REQUEST), "BadRequest");
    assert_string_equal(error_name(ERR_INTERNAL), "Internal");
    assert_string_equal(error_name((ErrorCode)4711), "Unknown");
    assert_string_equal(error_name(ERR_NONE), "Unknown");
}
