/* guest/supervisor/streams/streams.h: one stream out of a pipe and a ring, with a writer that is
 * honest and one that is not. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest/supervisor/streams/streams.h"
#include "proto/base/buf.h"
#include "proto/limits.h"
#include "tests/support/cmocka.h"

typedef struct Fixture {
    RingReader readers[2];
    Merge merge;
    Ring *ring;
    int fd;
    Buf pipe, text;
    size_t pieces, longest;
} Fixture;

static void on_data(Merge *merge, const uint8_t *bytes, size_t n)
{
    Fixture *f = container_of(merge, Fixture, merge);

    assert_true(n > 0 && n <= LIMIT_CHUNK);
    assert_int_equal(buf_append(&f->text, bytes, n), 0);
    f->pieces++;
    f->longest = MAX(f->longest, n);
}

static int set_up(void **state)
{
    Fixture *f = calloc(1, sizeof(*f));

    *state = f;
    if (!f || rings_open(f->readers, &f->fd) < 0)
        return -1;
    f->ring = f->readers[0].ring;
    f->merge = (Merge){.ring = &f->readers[0], .on_data = on_data};
    return 0;
}

static int tear_down(void **state)
{
    Fixture *f = *state;

    rings_close(f->readers);
    close(f->fd);
    buf_deinit(&f->pipe);
    buf_deinit(&f->text);
    free(f);
    return 0;
}

/* Prints as the interpreter does. */
static void print(Fixture *f, const char *text)
{
    uint64_t head = f->ring->head;

    if (head == f->ring->tail)
        f->ring->start = head;
    for (; *text; text++, head++)
        f->ring->space[(head - f->ring->start) % RING_SPACE] = (uint8_t)*text;
    f->ring->head = head;
}

static void write_text_to(Fixture *f, const char *text)
{
    buf_append(&f->pipe, text, strlen(text));
}

static void mark_at(Fixture *f, uint64_t position)
{
    RingMark mark = {.position = position};

    memcpy(mark.nonce, f->ring->nonce, sizeof(mark.nonce));
    buf_append(&f->pipe, &mark, sizeof(mark));
}

static void mark(Fixture *f)
{
    mark_at(f, f->ring->head);
}

/* Reads as the supervisor does, at most `size` bytes at a time. */
static void read_pipe(Fixture *f, size_t size)
{
    while (f->pipe.size > 0) {
        uint8_t space[LIMIT_CHUNK];
        size_t held = merge_recall(&f->merge, space);
        size_t n = MIN(f->pipe.size, MIN(size, sizeof(space) - held));

        memcpy(space + held, buf_head(&f->pipe), n);
        buf_consume(&f->pipe, n);
        merge_pipe(&f->merge, space, held + n);
    }
}

static void finish(Fixture *f)
{
    merge_rest(&f->merge, ring_head(&f->readers[0]));
}

static void assert_text(Fixture *f, const char *expected)
{
    assert_int_equal(f->text.size, strlen(expected));
    if (f->text.size > 0)
        assert_memory_equal(buf_head(&f->text), expected, f->text.size);
    buf_clear(&f->text);
}

TEST_WITH(test_order, set_up, tear_down)
{
    Fixture *f = *state;

    for (size_t size = 1; size < 100; size++) {
        print(f, "one ");
        mark(f);
        write_text_to(f, "two ");
        print(f, "three ");
        mark(f);
        mark(f);
        print(f, "six");
        write_text_to(f, "four \xff five ");
        read_pipe(f, size);
        finish(f);
        finish(f);
        assert_text(f, "one two three four \xff five six");
    }
}

/* A flush whose writer died before, in and behind it. */
TEST_WITH(test_each_byte_once, set_up, tear_down)
{
    Fixture *f = *state;

    print(f, "a");
    finish(f);
    mark(f);
    read_pipe(f, 64);
    finish(f);
    assert_text(f, "a");
    print(f, "b");
    mark_at(f, f->ring->head - 1);
    read_pipe(f, 64);
    assert_text(f, "");
    finish(f);
    assert_text(f, "b");
}

TEST_WITH(test_what_came_later_stays_behind_what_is_in_the_pipe, set_up, tear_down)
{
    Fixture *f = *state;
    uint64_t until;

    print(f, "1");
    until = ring_head(&f->readers[0]);
    mark(f);
    print(f, "3");
    merge_rest(&f->merge, until);
    write_text_to(f, "2");
    read_pipe(f, 64);
    finish(f);
    assert_text(f, "123");
}

TEST_WITH(test_around_the_end, set_up, tear_down)
{
    Fixture *f = *state;
    char expected[64] = "", word[16];
    uint8_t *fill = malloc(RING_SPACE);

    assert_non_null(fill);
    for (size_t turn = 0; turn < 300; turn++) {
        print(f, "pad");
        snprintf(word, sizeof(word), "<%zu>", turn);
        print(f, word);
        mark_at(f, f->ring->head - strlen(word));
        read_pipe(f, 64);
        finish(f);
        snprintf(expected, sizeof(expected), "pad%s", word);
        assert_text(f, expected);
        /* Never empty from here to the next round: the place of the next byte goes round. */
        f->ring->head += RING_SPACE - 7;
        assert_int_equal(ring_take(&f->readers[0], f->ring->head - 1, fill, RING_SPACE), RING_SPACE - 8);
        f->ring->head -= 1;
    }
    free(fill);
}

TEST_WITH(test_few_pieces, set_up, tear_down)
{
    Fixture *f = *state;
    char *full = calloc(1, LIMIT_CHUNK);

    assert_non_null(full);
    memset(full, 'r', RING_SPACE - 1);
    print(f, full);
    mark_at(f, f->ring->head - 9);
    memset(full, 'p', LIMIT_CHUNK - 1 - sizeof(RingMark));
    full[LIMIT_CHUNK - 1 - sizeof(RingMark)] = '\0';
    write_text_to(f, full);
    read_pipe(f, LIMIT_CHUNK);
    finish(f);
    assert_true(f->pieces <= 3);
    assert_int_equal(f->text.size, RING_SPACE - 1 + LIMIT_CHUNK - 1 - sizeof(RingMark));
    free(full);
}

TEST_WITH(test_hostile_numbers, set_up, tear_down)
{
    static const uint64_t numbers[] = {
        0, 1, 7, RING_SPACE, RING_SPACE + 1, UINT32_MAX, INT64_MAX, UINT64_MAX - 3};
    Fixture *f = *state;

    for (size_t i = 0; i < 8 * 8 * 8 * 8; i++) {
        uint64_t before = f->readers[0].taken;

        f->ring->head = numbers[i % 8];
        f->ring->start = numbers[i / 8 % 8];
        f->ring->tail = numbers[i / 64 % 8];
        mark_at(f, numbers[i / 512]);
        mark_at(f, numbers[i / 512] + 1);
        read_pipe(f, LIMIT_CHUNK);
        finish(f);
        assert_true(f->text.size <= RING_SPACE);
        assert_int_equal(f->readers[0].taken - before, f->text.size);
        buf_clear(&f->text);
    }
}

TEST_WITH(test_a_flood_of_marks, set_up, tear_down)
{
    Fixture *f = *state;

    f->ring->head = RING_SPACE;
    for (size_t i = 0; i < LIMIT_CHUNK / sizeof(RingMark); i++)
        mark_at(f, (uint64_t)i * RING_SPACE);
    read_pipe(f, LIMIT_CHUNK);
    assert_int_equal(f->text.size, RING_SPACE);
}

TEST_WITH(test_the_file_cannot_be_cut, set_up, tear_down)
{
    Fixture *f = *state;

    assert_int_equal(ftruncate(f->fd, 0), -1);
    assert_int_equal(ftruncate(f->fd, 1 << 30), -1);
    assert_int_equal(madvise(f->ring, sizeof(Rings), MADV_REMOVE), 0);
    finish(f);
    assert_text(f, "");
}

TEST_WITH(test_without_a_ring, set_up, tear_down)
{
    RingReader none = RING_READER_NULL;
    Fixture *f = *state;

    f->merge.ring = &none;
    mark(f);
    read_pipe(f, 5);
    assert_int_equal(f->text.size, sizeof(RingMark));
    merge_rest(&f->merge, 5);
    assert_int_equal(f->text.size, sizeof(RingMark));
}
