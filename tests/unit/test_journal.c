/* The journal as a file: what was appended is read again, whatever happened to the end of it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "host/files/tree.h"
#include "host/journal/journal.h"
#include "tests/support/cmocka.h"

static char directory[64], path[PATH_MAX];
static Journal journal;

static int set_up(void **state)
{
    strcpy(directory, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/journal", directory);
    journal = JOURNAL_NULL;
    return 0;
}

static int tear_down(void **state)
{
    journal_leave(&journal);
    assert_int_equal(remove_path(directory), 0);
    return 0;
}

/* Makes the batch that a test writes: batch N has N % 3 + 1 entries, each with the number N. */

static int make_batch(Buf *batch, uint64_t number, const char *padding)
{
    int r = 0;

    for (uint64_t i = 0; r == 0 && i <= number % 3; i++)
        r = journal_write_branch(batch, &(JournalBranch){.branch = number + 1,
                                                         .name = {padding, strlen(padding)},
                                                         .instance = {"0123456789abcdef", 16}});
    return r;
}

static void append(uint64_t number, const char *padding)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;

    assert_int_equal(make_batch(&batch, number, padding), 0);
    journal_append(&journal, &batch);
}

typedef struct Seen {
    uint64_t entries, last;
    bool in_order;
} Seen;

static int see(void *userdata, const void *bytes, size_t size)
{
    Seen *seen = userdata;
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;

    if (journal_entry_decode(&entry, bytes, size, &problem) < 0)
        return -EBADMSG;
    seen->in_order &= entry.kind == ENTRY_BRANCH && entry.branch.branch >= seen->last;
    if (entry.kind == ENTRY_BRANCH)
        seen->last = entry.branch.branch;
    seen->entries++;
    journal_entry_deinit(&entry);
    return 0;
}

static Seen look(void)
{
    Seen seen = {.in_order = true};

    uint64_t size;

    assert_int_equal(journal_read(path, see, &seen, &size), 0);
    return seen;
}

static int nothing(Journal *to, void *userdata)
{
    return 0;
}

TEST_WITH(test_what_was_appended, set_up, tear_down)
{
    assert_int_equal(journal_open(&journal, path, nothing, NULL), 0);
    assert_int_equal(look().entries, 0);
    for (uint64_t i = 0; i < 6; i++)
        append(i, "a");
    Seen seen = look();
    assert_int_equal(seen.entries, 12);
    assert_int_equal(seen.last, 6);
    assert_true(seen.in_order);

    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, journal.size);
}

/* A whole journal in memory, and where its batches end. */
static uint8_t *make_whole(size_t *ret_size, size_t ends[], unsigned batches)
{
    uint8_t *bytes = malloc(1 << 16);

    assert_int_equal(journal_open(&journal, path, nothing, NULL), 0);
    for (unsigned i = 0; i < batches; i++) {
        append(i, "name");
        ends[i] = journal.size;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *ret_size = (size_t)read(fd, bytes, 1 << 16);
    close(fd);
    assert_int_equal(*ret_size, journal.size);
    return bytes;
}

/* Counts the entries, in whole batches, of the first `size` bytes. */
static uint64_t entries_within(const size_t ends[], unsigned batches, size_t size)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < batches && ends[i] <= size; i++)
        n += i % 3 + 1;
    return n;
}

TEST_WITH(test_torn_at_every_byte, set_up, tear_down)
{
    size_t size, ends[7];
    uint8_t *whole = make_whole(&size, ends, ARRAY_SIZE(ends));

    for (size_t n = 0; n <= size; n++) {
        Seen seen = {.in_order = true};
        uint8_t *torn = malloc(n + 1); /* so that a byte too many is seen */
        memcpy(torn, whole, n);
        size_t used = journal_parse(torn, n, see, &seen);
        assert_true(used <= n);
        assert_int_equal(seen.entries, entries_within(ends, ARRAY_SIZE(ends), n));
        free(torn);
    }
    free(whole);
}

/* Whatever a byte becomes: what is before it counts, and nothing is read that is not there. */
TEST_WITH(test_garbled_at_every_byte, set_up, tear_down)
{
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xc1, 0xdf, 0xff};
    size_t size, ends[7];
    uint8_t *whole = make_whole(&size, ends, ARRAY_SIZE(ends));

    for (size_t at = 0; at < size; at++)
        for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
            Seen seen = {.in_order = true};
            uint8_t before = whole[at];
            whole[at] = values[i];
            journal_parse(whole, size, see, &seen);
            assert_true(at < 8 || seen.entries >= entries_within(ends, ARRAY_SIZE(ends), at));
            whole[at] = before;
        }
    free(whole);
}

TEST_WITH(test_another_version, set_up, tear_down)
{
    size_t size, ends[1];
    Seen seen = {0};
    uint8_t *whole = make_whole(&size, ends, 1);

    whole[7]++;
    assert_int_equal(journal_parse(whole, size, see, &seen), 0);
    assert_int_equal(seen.entries, 0);
    free(whole);
}

/* ---- writing it anew -------------------------------------------------------------------------------------
 */

static char padding[120];
static uint64_t live_from, live_to; /* the numbers that count */
static unsigned snapshots;

static int write_live(Journal *to, void *userdata)
{
    int r = 0;

    snapshots++;
    for (uint64_t i = live_from; r == 0 && i < live_to; i++) {
        Buf batch _cleanup_(buf_deinit) = BUF_NULL;
        r = make_batch(&batch, i, padding);
        if (r == 0)
            r = journal_put(to, &batch);
    }
    return r;
}

static void assert_live(void)
{
    Seen seen = look();
    uint64_t wanted = 0;

    for (uint64_t i = live_from; i < live_to; i++)
        wanted += i % 3 + 1;
    assert_true(seen.entries >= wanted);
    assert_int_equal(seen.last, live_to);
    assert_true(seen.in_order);
}

TEST_WITH(test_it_does_not_grow_without_end, set_up, tear_down)
{
    uint64_t largest = 0;

    memset(padding, 'p', sizeof(padding) - 1);
    live_from = live_to = snapshots = 0;
    assert_int_equal(journal_open(&journal, path, write_live, NULL), 0);
    for (uint64_t i = 0; i < 100000; i++) {
        live_to = i + 1;
        live_from = live_to > 64 ? live_to - 64 : 0;
        append(i, padding);
        largest = MAX(largest, journal.size);
    }
    assert_true(snapshots > 2 && snapshots < 40);
    assert_true(largest <= 4u << 20);
    assert_live();
}

TEST_WITH(test_what_cannot_be_written, set_up, tear_down)
{
    char away[PATH_MAX];

    live_from = 0;
    live_to = 3;
    snprintf(path, sizeof(path), "%s/sub/journal", directory);
    assert_int_equal(journal_open(&journal, path, write_live, NULL), 0);
    assert_int_equal(journal.fd, -1);
    live_to = 4;
    append(3, "a");
    assert_int_equal(journal.fd, -1);

    snprintf(away, sizeof(away), "%s/sub", directory);
    assert_int_equal(mkdir(away, 0700), 0);
    live_to = 5;
    append(4, "a");
    assert_true(journal.fd >= 0);
    assert_live();
}

/* The old file goes on while a new one cannot be written. */
static int not_now(Journal *to, void *userdata)
{
    return -EBUSY;
}

TEST_WITH(test_not_to_be_rewritten_now, set_up, tear_down)
{
    memset(padding, 'p', sizeof(padding) - 1);
    assert_int_equal(journal_open(&journal, path, nothing, NULL), 0);
    journal.snapshot = not_now;
    for (uint64_t i = 0; i < 40000; i++)
        append(i, padding);
    assert_true(journal.size > 4u << 20);
    Seen seen = look();
    assert_int_equal(seen.last, 40000);
    assert_true(seen.in_order);
}

/* Entries written before stay, and nothing is half there; when there is room again nothing is missing. */
TEST_WITH(test_a_full_disk, set_up, tear_down)
{
    struct rlimit before, small = {4096, 0};

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    live_from = live_to = 0;
    memset(padding, 'p', sizeof(padding) - 1);
    assert_int_equal(journal_open(&journal, path, write_live, NULL), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    while (!journal.lost) {
        append(live_to++, padding);
        assert_true(live_to < 100);
    }
    uint64_t size = journal.size;
    Seen seen = look();
    assert_true(seen.in_order && seen.entries > 10);
    assert_int_equal(seen.last, live_to - 1);
    append(live_to++, padding);
    assert_int_equal(journal.size, size);
    assert_int_equal(look().entries, seen.entries);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, size);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    append(live_to++, padding);
    assert_false(journal.lost);
    assert_live();
}

/* With room for a little, but not for everything anew, what comes is written behind what is there. */
TEST_WITH(test_little_room, set_up, tear_down)
{
    struct rlimit before, small = {4096, 0};

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    live_from = live_to = 0;
    memset(padding, 'p', sizeof(padding) - 1);
    assert_int_equal(journal_open(&journal, path, write_live, NULL), 0);
    journal.snapshot = not_now;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    while (!journal.lost)
        append(live_to++, padding);
    small.rlim_cur += 1024;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    append(live_to++, padding);
    Seen seen = look();
    assert_int_equal(seen.last, live_to);
    assert_true(journal.lost && seen.in_order);

    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* Entries that the next controller appends come behind those that made sense. */
TEST_WITH(test_gone_on_with, set_up, tear_down)
{
    uint64_t size;

    live_from = live_to = 0;
    assert_int_equal(journal_open(&journal, path, write_live, NULL), 0);
    append(0, "a");
    append(1, "a");
    size = journal.size;
    append(2, "a");
    journal_leave(&journal);
    assert_int_equal(truncate(path, (off_t)size + 7), 0);
    assert_int_equal(journal_resume(&journal, path, size, write_live, NULL), 0);
    append(3, "a");
    Seen seen = look();
    assert_int_equal(seen.entries, 1 + 2 + 1);
    assert_int_equal(seen.last, 4);

    journal_leave(&journal);
    assert_int_equal(unlink(path), 0);
    live_to = 3;
    assert_int_equal(journal_resume(&journal, path, size, write_live, NULL), 0);
    assert_live();
}

TEST_WITH(test_where_it_goes, set_up, tear_down)
{
    assert_int_equal(journal_open(&journal, path, nothing, NULL), 0);
    append(0, "a");
    journal_leave(&journal);
    assert_int_equal(look().entries, 1);
    append(1, "a"); /* none is kept any more */
    assert_int_equal(look().entries, 1);

    assert_int_equal(journal_open(&journal, path, nothing, NULL), 0);
    journal_remove(&journal);
    assert_int_equal(access(path, F_OK), -1);
}
