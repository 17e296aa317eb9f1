/* guest/supervisor/command/background.h: the history of output against a list of all that was ever written,
 * byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "guest/supervisor/command/background.h"
#include "proto/base/base.h"
#include "tests/support/cmocka.h"

#define MODEL_MAXIMUM ((size_t)8 << 20)

/* Model: each byte, and the stream it is of. */
static struct {
    uint8_t *bytes;
    uint8_t *streams;
    size_t total;
    OutputHistory history;
} t;

static int set_up(void **state)
{
    memset(&t, 0, sizeof(t));
    t.bytes = malloc(MODEL_MAXIMUM);
    t.streams = malloc(MODEL_MAXIMUM);
    return t.bytes && t.streams ? 0 : -1;
}

static int tear_down(void **state)
{
    history_deinit(&t.history);
    free(t.bytes);
    free(t.streams);
    return 0;
}

/* Always the same numbers. */
static uint32_t any(uint32_t below)
{
    static uint64_t seed = 1;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static void put(unsigned stream, size_t n)
{
    assert_true(t.total + n <= MODEL_MAXIMUM);
    for (size_t i = t.total; i < t.total + n; i++) {
        t.bytes[i] = (uint8_t)any(256);
        t.streams[i] = (uint8_t)stream;
    }
    history_write(&t.history, stream, t.bytes + t.total, n);
    t.total += n;
}

static size_t change_after(size_t at)
{
    size_t end = at + 1;

    while (end < t.total && t.streams[end] == t.streams[at])
        end++;
    return end;
}

/* Finds the place where a history of all the model's bytes begins. */
static size_t first_kept(void)
{
    size_t at = t.total, pieces = 0, oldest = t.total - MIN(t.total, (size_t)LIMIT_TAIL);

    while (at > oldest) {
        if ((at == t.total || t.streams[at - 1] != t.streams[at]) && ++pieces > LIMIT_PIECES)
            break;
        at--;
    }
    return at;
}

static void assert_run(size_t from, size_t most)
{
    HistoryRun run = history_run(&t.history, from, most);
    size_t n = from < t.total ? MIN(change_after(from) - from, most) : 0;

    assert_int_equal(run.n, n);
    if (n > 0) {
        assert_int_equal(run.stream, t.streams[from]);
        assert_memory_equal(run.bytes, t.bytes + from, n);
    }
}

/* From `from` to the end, in runs of `most` bytes at most. */
static void assert_all(size_t from, size_t most)
{
    while (from < t.total) {
        assert_run(from, most);
        from += history_run(&t.history, from, most).n;
    }
    assert_int_equal(from, t.total);
    assert_run(t.total, most);
}

static void assert_same(void)
{
    size_t begin = history_begin(&t.history);

    assert_int_equal(t.history.total, t.total);
    assert_true(t.history.pieces.size <= LIMIT_PIECES * sizeof(HistoryPiece));
    assert_run(begin, SIZE_MAX);
    assert_run(begin, 0);
    assert_run(t.total, SIZE_MAX);
    if (begin < t.total)
        assert_run(begin + any((uint32_t)(t.total - begin)), 1 + any(5000));
}

TEST_WITH(nothing, set_up, tear_down)
{
    assert_same();
    assert_int_equal(history_begin(&t.history), 0);
}

TEST_WITH(every_offset_and_most, set_up, tear_down)
{
    for (unsigned i = 0; i < 12; i++)
        put(1 + i % 2, 1 + any(6));
    for (size_t from = 0; from <= t.total; from++)
        for (size_t most = 0; most <= t.total + 1; most++)
            assert_run(from, most);
    for (size_t most = 1; most <= t.total; most++)
        assert_all(0, most);
}

TEST_WITH(one_stream_is_one_run, set_up, tear_down)
{
    for (unsigned i = 0; i < 3000; i++)
        put(2, 1 + any(20));
    assert_int_equal(history_begin(&t.history), 0);
    assert_int_equal(history_run(&t.history, 0, SIZE_MAX).n, t.total);
    assert_all(0, SIZE_MAX);
}

TEST_WITH(at_most_so_many_bytes, set_up, tear_down)
{
    put(1, LIMIT_TAIL - 1);
    put(2, 1);
    assert_int_equal(history_begin(&t.history), 0);
    put(2, 1);
    assert_int_equal(history_begin(&t.history), 1);
    assert_all(1, SIZE_MAX);
    put(1, LIMIT_TAIL); /* nothing is left of what was before */
    assert_int_equal(history_begin(&t.history), first_kept());
    assert_all(first_kept(), 4096);
    put(2, LIMIT_TAIL + 5); /* not even all of it fits */
    assert_int_equal(t.total - history_begin(&t.history), LIMIT_TAIL);
    assert_all(first_kept(), SIZE_MAX);
    assert_same();
}

TEST_WITH(at_most_so_many_pieces, set_up, tear_down)
{
    for (unsigned i = 0; i < LIMIT_PIECES; i++)
        put(1 + i % 2, 3);
    assert_int_equal(history_begin(&t.history), 0);
    put(1 + LIMIT_PIECES % 2, 3);
    assert_int_equal(history_begin(&t.history), 3);
    put(1 + LIMIT_PIECES % 2, 3); /* no further piece */
    assert_int_equal(history_begin(&t.history), 3);
    assert_all(3, 2);
    for (unsigned i = 0; i < 3 * LIMIT_PIECES; i++) {
        put(1 + i % 2, 1 + any(9));
        assert_int_equal(history_begin(&t.history), first_kept());
    }
    assert_all(first_kept(), SIZE_MAX);
}

/* Sizes from nothing to more than all that is kept. */
TEST_WITH(at_random, set_up, tear_down)
{
    size_t largest = 1;

    while (t.total < MODEL_MAXIMUM - 4 * LIMIT_TAIL) {
        largest = any(40) ? largest : (size_t)1 << any(22);
        put(1 + any(2), 1 + any((uint32_t)largest));
        assert_same();
        assert_true(history_begin(&t.history) >= t.total - MIN(t.total, (size_t)LIMIT_TAIL));
    }
    assert_all(history_begin(&t.history), 1 + any(100000));
    for (unsigned i = 0; i < 4; i++)
        put(1 + i % 2, LIMIT_TAIL / 4);
    assert_int_equal(history_begin(&t.history),
                     t.total - LIMIT_TAIL); /* what was lost is not lost for ever */
    assert_all(history_begin(&t.history), SIZE_MAX);
}
