/* Publishing while another thread changes everything it can. */
#include "tests/support/artifacts_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS    100
#define FILE_SIZE (256 << 10)

static atomic_bool stop;
static atomic_uint turns;

static void *swap_directories(void *userdata)
{
    Fixture *f = userdata;
    _cleanup_(closep) int inner = openat(f->root, "a", O_PATH | O_DIRECTORY | O_CLOEXEC);

    while (!stop) {
        renameat2(f->root, "a", f->root, "b", RENAME_EXCHANGE);
        renameat2(inner, "file", f->root, "c", RENAME_EXCHANGE);
        write_file(f->root, "own", "inside");
        turns++;
    }
    return NULL;
}

static void assert_no_canary(const ArtifactList *list)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->entries[i].skipped)
            continue;
        _cleanup_(freep) char *text = read_file(list->entries[i].host_path);
        assert_null(strstr(text, "CANARY"));
    }
}

/* "a" is now a directory of ours with "file", now a link to one that has a canary called "file". */
TEST_WITH(test_swapped_directories, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    pthread_t thread;
    char outside[PATH_MAX];

    snprintf(outside, sizeof(outside), "%s/outside", f->base);
    write_file(f->outside, "file", "CANARY");
    write_file(f->outside, "own", "CANARY");
    assert_int_equal(symlinkat(outside, f->root, "b"), 0);
    mkdirat(f->root, "a", 0755);
    write_file(f->root, "a/file", "inside");
    assert_int_equal(symlinkat("../outside/file", f->root, "c"), 0);
    publish(f);

    stop = false;
    turns = 0;
    assert_int_equal(pthread_create(&thread, NULL, swap_directories, f), 0);
    for (int i = 0; i < ROUNDS || turns < 3000; i++)
        assert_no_canary(publish(f));
    stop = true;
    pthread_join(thread, NULL);
    assert_no_canary(publish(f));
    write_file(f->root, "end", "reached");
    assert_published(publish(f), "end", "reached");
}

static void *rewrite(void *userdata)
{
    Fixture *f = userdata;
    uint8_t *bytes = malloc(FILE_SIZE);
    int fd = openat(f->root, "busy", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    for (unsigned turn = 1; !stop; turn++) {
        memset(bytes, (int)turn, FILE_SIZE);
        if (pwrite(fd, bytes, FILE_SIZE, 0) != FILE_SIZE)
            abort();
    }
    memset(bytes, '!', FILE_SIZE);
    if (pwrite(fd, bytes, FILE_SIZE, 0) != FILE_SIZE)
        abort();
    close(fd);
    free(bytes);
    return NULL;
}

static void assert_digest(const Artifact *artifact)
{
    _cleanup_(sha256_deinit) Sha256 sha = SHA256_NULL;
    _cleanup_(freep) uint8_t *bytes = malloc(FILE_SIZE + 1);
    uint8_t digest[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    int fd = open(artifact->host_path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, bytes, FILE_SIZE + 1);

    close(fd);
    assert_int_equal(n, artifact->size);
    assert_int_equal(sha256_start(&sha) | sha256_update(&sha, bytes, (size_t)n) | sha256_finish(&sha, digest),
                     0);
    hex_encode(hex, digest, SHA256_SIZE);
    assert_string_equal(hex, artifact->sha256);
}

/* Whatever is published has the digest that is told; the last state is published in the end. */
/* Proves: security: planted paths and links */
TEST_WITH(test_file_that_changes, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    pthread_t thread;
    unsigned skipped = 0, published = 0;

    publish(f);
    stop = false;
    assert_int_equal(pthread_create(&thread, NULL, rewrite, f), 0);
    while (published + skipped < ROUNDS || skipped == 0) {
        const Artifact *busy = find(publish(f), "busy");

        if (busy && busy->skipped)
            assert_string_equal(busy->skipped, "changed while being copied");
        else if (busy)
            assert_digest(busy);
        skipped += busy && busy->skipped;
        published += busy && !busy->skipped;
    }
    stop = true;
    pthread_join(thread, NULL);
    const Artifact *busy = find(publish(f), "busy");
    assert_non_null(busy);
    assert_null(busy->skipped);
    assert_digest(busy);
    assert_int_equal(publish(f)->n, 0);
    print_message("%u times published, %u times it had changed\n", published, skipped);
}
