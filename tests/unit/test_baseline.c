/* Files that one process reported are not reported again by another one. */
#include "tests/support/artifacts_fixture.h"

#include "host/files/index.h"

static int append(void *userdata, const Buf *files)
{
    return buf_append(userdata, buf_head(files), files->size);
}

static void read_all(Artifacts *artifacts, const Buf *baseline)
{
    msgpack_unpacked one;
    size_t at = 0;

    msgpack_unpacked_init(&one);
    while (msgpack_unpack_next(&one, (const char *)buf_head(baseline), baseline->size, &at) ==
           MSGPACK_UNPACK_SUCCESS) {
        assert_int_equal(one.data.type, MSGPACK_OBJECT_ARRAY);
        assert_true(one.data.via.array.size <= BASELINE_FILES);
        artifacts_read_baseline(artifacts, &one.data.via.array);
    }
    assert_int_equal(at, baseline->size);
    msgpack_unpacked_destroy(&one);
}

/* The process that watched is gone; another one watches, which knows what is in `baseline`. */
static void begin_again(Fixture *f, const Buf *baseline)
{
    fixture_watch(f, NULL);
    read_all(f->artifacts, baseline);
}

/* Written in the same moment as it was looked at: only the contents can tell. */
TEST_WITH(test_contents_decide, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    Buf baseline _cleanup_(buf_deinit) = BUF_NULL;

    write_file(f->root, "a", "1");
    write_file(f->root, "b", "1");
    assert_int_equal(publish(f)->n, 2);
    assert_int_equal(artifacts_write_baseline(f->artifacts, false, append, &baseline), 0);

    begin_again(f, &baseline);
    struct stat st;
    assert_int_equal(fstatat(f->root, "a", &st, 0), 0);
    write_file(f->root, "a", "2");
    assert_int_equal(utimensat(f->root, "a", (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
    assert_int_equal(fchmodat(f->root, "b", 0600, 0), 0);
    publish(f);
    assert_int_equal(f->list->n, 1);
    assert_published(f->list, "a", "2");
}

/* Parts noted since the last time, one after the other, make the same as all of it. */
TEST_WITH(test_in_parts, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    Buf parts _cleanup_(buf_deinit) = BUF_NULL, whole _cleanup_(buf_deinit) = BUF_NULL;
    Buf nothing _cleanup_(buf_deinit) = BUF_NULL;

    for (unsigned i = 0; i < 2 * BASELINE_FILES + 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        write_file(f->root, name, "x");
        if (i % 900 == 0)
            publish(f);
        if (i % 900 == 0)
            assert_int_equal(artifacts_write_baseline(f->artifacts, false, append, &parts), 0);
    }
    publish(f);
    publish(f); /* more than one call may have */
    publish(f);
    assert_int_equal(artifacts_write_baseline(f->artifacts, false, append, &parts), 0);
    assert_int_equal(artifacts_write_baseline(f->artifacts, false, append, &nothing), 0);
    assert_int_equal(nothing.size, 0);
    assert_int_equal(artifacts_write_baseline(f->artifacts, true, append, &whole), 0);
    begin_again(f, &parts);
    assert_int_equal(publish(f)->n, 0);
    begin_again(f, &whole);
    assert_int_equal(publish(f)->n, 0);
    begin_again(f, &nothing);
    assert_true(publish(f)->n > 0);
}

TEST_WITH(test_directory_that_is_not_entered, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    Buf baseline _cleanup_(buf_deinit) = BUF_NULL;
    char deep[512] = "";

    for (int i = 0; i < 40; i++) {
        strcat(deep, i ? "/d" : "d");
        assert_int_equal(mkdirat(f->root, deep, 0755), 0);
    }
    assert_int_equal(publish(f)->n, 1);
    assert_int_equal(artifacts_write_baseline(f->artifacts, false, append, &baseline), 0);
    begin_again(f, &baseline);
    assert_int_equal(publish(f)->n, 0);
    assert_int_equal(publish(f)->n, 0);
}

static void add_file(Writer *w, const char *path, uint64_t type, int64_t nanoseconds, size_t sha256)
{
    static const uint8_t zeros[SHA256_SIZE];

    write_array(w, 11);
    write_text(w, path);
    write_uint(w, 1);
    write_uint(w, 1);
    write_uint(w, 2);
    write_uint(w, type);
    write_uint(w, 3);
    write_int(w, -4);
    write_int(w, nanoseconds);
    write_int(w, 5);
    write_uint(w, 6);
    write_bytes(w, zeros, sha256);
}

/* Every file that makes no sense is as if it were not there; those around it count. */
TEST_WITH(test_nonsense, fixture_setup, fixture_teardown)
{
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    msgpack_unpacked one;
    Index index;
    Writer w;

    writer_init(&w, &bytes);
    write_array(&w, 9);
    write_nil(&w);
    write_array(&w, 1);
    write_nil(&w);
    add_file(&w, "", S_IFREG, 0, SHA256_SIZE);
    add_file(&w, "type", 07777, 0, SHA256_SIZE);
    add_file(&w, "time", S_IFREG, 1000000000, SHA256_SIZE);
    add_file(&w, "negative", S_IFREG, -1, SHA256_SIZE);
    add_file(&w, "sha256", S_IFREG, 0, SHA256_SIZE - 1);
    add_file(&w, "good", S_IFREG, 0, SHA256_SIZE);
    write_text(&w, "end");
    assert_int_equal(writer_finish(&w), 0);

    index_init(&index, 10, 1000);
    msgpack_unpacked_init(&one);
    assert_int_equal(msgpack_unpack_next(&one, (const char *)buf_head(&bytes), bytes.size, NULL),
                     MSGPACK_UNPACK_SUCCESS);
    baseline_read(&index, &one.data.via.array);
    assert_int_equal(index.count, 1);
    assert_true(index_find(&index, "good")->published);
    msgpack_unpacked_destroy(&one);
    index_deinit(&index);
}

/* A publication that was broken off leaves nothing in the way, and nothing behind. */
TEST_WITH(test_broken_off, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/published/.partial", f->base);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    fixture_watch(f, NULL);
    assert_int_equal(access(path, F_OK), -1);
}
