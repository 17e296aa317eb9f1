/* Entries of a journal: what is written is what is read, and what makes no sense is refused. */
#include <string.h>

#include "host/journal/journal.h"
#include "tests/support/cmocka.h"

#define SIZE_BYTES (2 * RECORD_HEAD) /* of the batch, and of its entry */

static Text text(const char *words)
{
    return (Text){words, strlen(words)};
}

static int decode(JournalEntry *ret, const Buf *batch)
{
    Problem problem = PROBLEM_NULL;
    int r = journal_entry_decode(ret, buf_head(batch) + SIZE_BYTES, batch->size - SIZE_BYTES, &problem);

    assert_true(r == 0 || problem.code != ERR_NONE);
    return r;
}

static const uint8_t secret[GUEST_SECRET_SIZE] = {1, 2, 3};

static JournalSession a_session(const Buf *options)
{
    return (JournalSession){
        .name = text("conv-1"),
        .instance = text("0123456789abcdef"),
        .directory = text("conv-1"),
        .ephemeral = false,
        .engine = text("oci"),
        .container = text("limpet-00000000-0123456789abcdef"),
        .link = text("0a1b2c3d4e5f"),
        .secret = {(const char *)secret, sizeof(secret)},
        .created = 1234567890.5,
        .options = value_encoded(options),
    };
}

TEST(test_session)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    uint8_t options_bytes[] = {0x81, 0xa4, 'c', 'p', 'u', 's', 0x02};
    Buf options = {.data = options_bytes, .size = sizeof(options_bytes)};
    JournalSession session = a_session(&options);
    JournalEntry entry;

    assert_int_equal(journal_write_session(&batch, &session), 0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_int_equal(entry.kind, ENTRY_SESSION);
    assert_true(text_equal(entry.session.name, "conv-1"));
    assert_true(text_equal(entry.session.container, "limpet-00000000-0123456789abcdef"));
    assert_true(text_equal(entry.session.link, "0a1b2c3d4e5f"));
    assert_memory_equal(entry.session.secret.data, secret, sizeof(secret));
    assert_true(entry.session.created == 1234567890.5);
    assert_int_equal(map_find(entry.session.options.map, "cpus")->via.u64, 2);
    journal_entry_deinit(&entry);
}

/* An earlier controller wrote none. */
TEST(test_users)
{
    static const struct {
        uint64_t written;
        uid_t read;
    } cases[] = {{1000, 1000}, {0, 0}, {NO_UINT, 7}};
    uint8_t options_bytes[] = {0x80};
    Buf options = {.data = options_bytes, .size = sizeof(options_bytes)};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        Buf batch _cleanup_(buf_deinit) = BUF_NULL;
        JournalSession session = a_session(&options);
        JournalEntry entry;

        session.user = cases[i].written;
        assert_int_equal(journal_write_session(&batch, &session), 0);
        assert_int_equal(decode(&entry, &batch), 0);
        assert_int_equal(journal_user(entry.session.user, 7), cases[i].read);
        journal_entry_deinit(&entry);
    }
}

TEST(test_call)
{
    static const char record[] = "\x81\xa6run_id\xc0";
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    JournalCall call = {
        .run_id = text("0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
        .code_hash = UINT64_MAX,
        .branch = 7,
        .record = {record, sizeof(record) - 1},
        .oom_kills = 3,
    };
    JournalEntry entry;

    assert_int_equal(journal_write_call(&batch, &call), 0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_int_equal(entry.kind, ENTRY_CALL);
    assert_true(entry.call.code_hash == UINT64_MAX);
    assert_int_equal(entry.call.branch, 7);
    assert_int_equal(entry.call.oom_kills, 3);
    assert_int_equal(entry.call.record.size, sizeof(record) - 1);
    assert_memory_equal(entry.call.record.data, record, sizeof(record) - 1);
    journal_entry_deinit(&entry);
}

TEST(test_others)
{
    static const EntryKind plain[] = {ENTRY_READY, ENTRY_CLOSING};
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    uint8_t files_bytes[] = {0x92, 0xc0, 0xc3};
    Buf files = {.data = files_bytes, .size = sizeof(files_bytes)};
    JournalBranch branch = {.branch = 1, .name = text("a/b"), .instance = text("0123"), .created = 2};
    JournalEntry entry;

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
        buf_clear(&batch);
        assert_int_equal(journal_write_plain(&batch, plain[i]), 0);
        assert_int_equal(decode(&entry, &batch), 0);
        assert_int_equal(entry.kind, plain[i]);
        journal_entry_deinit(&entry);
    }
    buf_clear(&batch);
    assert_int_equal(journal_write_files(&batch, &files), 0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_int_equal(entry.kind, ENTRY_FILES);
    assert_int_equal(entry.files->size, 2);
    journal_entry_deinit(&entry);

    buf_clear(&batch);
    assert_int_equal(journal_write_branch(&batch, &branch), 0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_int_equal(entry.kind, ENTRY_BRANCH);
    assert_true(text_equal(entry.branch.name, "a/b"));
    journal_entry_deinit(&entry);

    buf_clear(&batch);
    assert_int_equal(journal_write_branch_closed(&batch, 9), 0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_int_equal(entry.kind, ENTRY_BRANCH_CLOSED);
    assert_int_equal(entry.branch.branch, 9);
    journal_entry_deinit(&entry);

    buf_clear(&batch);
    assert_int_equal(
        journal_write_end(
            &batch,
            &(JournalEnd){.name = text("a/b"), .instance = text("0123"), .reason = text("why"), .time = 2.5}),
        0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_int_equal(entry.kind, ENTRY_ENDED);
    assert_true(text_equal(entry.end.name, "a/b") && text_equal(entry.end.instance, "0123"));
    assert_true(text_equal(entry.end.reason, "why") && entry.end.time == 2.5);
    journal_entry_deinit(&entry);
}

/* A session that has no container any more has nothing that connects. */
TEST(test_saved)
{
    uint8_t options_bytes[] = {0x80};
    Buf options = {.data = options_bytes, .size = sizeof(options_bytes)};
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    JournalSession session = a_session(&options);
    JournalEntry entry;

    assert_int_equal(journal_write_saved(&batch, &(JournalSaved){.execution_count = 12, .epoch = 3}), 0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_int_equal(entry.kind, ENTRY_SAVED);
    assert_int_equal(entry.saved.execution_count, 12);
    assert_int_equal(entry.saved.epoch, 3);
    journal_entry_deinit(&entry);

    buf_clear(&batch);
    session.link = (Text){0};
    assert_int_equal(journal_write_session(&batch, &session), 0);
    assert_true(decode(&entry, &batch) < 0); /* a secret for nobody */
    buf_clear(&batch);
    session.secret = (Text){0};
    assert_int_equal(journal_write_session(&batch, &session), 0);
    assert_int_equal(decode(&entry, &batch), 0);
    assert_null(entry.session.link.data);
    journal_entry_deinit(&entry);
}

/* A path that is made of an entry stays where it belongs. */
TEST(test_names_that_lead_elsewhere)
{
    static const char *const bad[] = {"", ".", "..", "../a", "a/b", ".hidden", "/"};
    uint8_t options_bytes[] = {0x80};
    Buf options = {.data = options_bytes, .size = sizeof(options_bytes)};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        for (size_t field = 0; field < 4; field++) {
            Buf batch _cleanup_(buf_deinit) = BUF_NULL;
            JournalSession session = a_session(&options);
            Text *fields[] = {&session.name, &session.directory, &session.container, &session.link};
            JournalEntry entry;

            *fields[field] = text(bad[i]);
            assert_int_equal(journal_write_session(&batch, &session), 0);
            assert_true(decode(&entry, &batch) < 0);
        }
}

TEST(test_values_that_cannot_be)
{
    uint8_t options_bytes[] = {0x80};
    Buf options = {.data = options_bytes, .size = sizeof(options_bytes)};
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    JournalSession session = a_session(&options);
    JournalCall call = {.run_id = text("short"), .record = text("\x80")};
    JournalBranch branch = {.branch = 0, .name = text("a"), .instance = text("0123")};
    JournalEntry entry;

    session.secret.size--;
    assert_int_equal(journal_write_session(&batch, &session), 0);
    assert_true(decode(&entry, &batch) < 0);
    buf_clear(&batch);
    assert_int_equal(journal_write_call(&batch, &call), 0);
    assert_true(decode(&entry, &batch) < 0);
    buf_clear(&batch);
    assert_int_equal(journal_write_branch(&batch, &branch), 0);
    assert_true(decode(&entry, &batch) < 0);
}
