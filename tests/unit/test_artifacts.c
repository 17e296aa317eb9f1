#include "tests/support/artifacts_fixture.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <signal.h>
#include <time.h>

TEST_WITH(test_open_file_is_reported_as_it_grows, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    int fd = openat(f->root, "log.txt", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    for (int i = 1; i <= 3; i++) {
        assert_int_equal(write(fd, "line\n", 5), 5);
        assert_int_equal(publish(f)->n, 1);
        assert_int_equal(find(f->list, "log.txt")->size, 5 * i);
    }
    close(fd);
    assert_int_equal(publish(f)->n, 0);
}

TEST_WITH(test_other_kinds, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    char canary[PATH_MAX];

    write_file(f->outside, "canary", "CANARY");
    snprintf(canary, sizeof(canary), "%s/outside", f->base);
    assert_int_equal(symlinkat(canary, f->root, "directory-link"), 0);
    snprintf(canary, sizeof(canary), "%s/outside/canary", f->base);
    assert_int_equal(symlinkat(canary, f->root, "link"), 0);
    assert_int_equal(symlinkat("/proc/self/environ", f->root, "magic"), 0);
    assert_int_equal(mkfifoat(f->root, "fifo", 0644), 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/root/socket", f->base);
    assert_int_equal(bind(fd, (void *)&address, sizeof(address)), 0);
    write_file(f->root, "sibling", "here");

    assert_int_equal(publish(f)->n, 6);
    assert_skipped(f->list, "link", "symbolic link");
    assert_skipped(f->list, "directory-link", "symbolic link");
    assert_skipped(f->list, "magic", "symbolic link");
    assert_skipped(f->list, "fifo", "FIFO");
    assert_skipped(f->list, "socket", "socket");
    assert_published(f->list, "sibling", "here");
    assert_int_equal(publish(f)->n, 0);
    close(fd);
}

TEST_WITH(test_sparse_and_large, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    int fd = openat(f->root, "giant", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    struct stat st;

    assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
    close(fd);
    fd = openat(f->root, "holes", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(pwrite(fd, "x", 1, 64 << 20), 1);
    close(fd);
    assert_int_equal(publish(f)->n, 2);
    assert_skipped(f->list, "giant", "too large");

    const Artifact *holes = find(f->list, "holes");
    assert_null(holes->skipped);
    assert_int_equal(stat(holes->host_path, &st), 0);
    assert_int_equal(st.st_size, (64 << 20) + 1);
    assert_true(st.st_blocks * 512 < 1 << 20);
    assert_string_equal(holes->sha256, "15f2858f9e022a4134f1cc04217049bc383b0feac1d9f0e3f9279e9b645c5b11");
}

TEST_WITH(test_odd_names, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    static const char *const names[] = {
        "new\nline", "esc\033[2J", "\xff\xfe invalid",         "-rf",
        ".hidden",   "100%",       "r\xc3\xa9sum\xc3\xa9.csv", "\xe2\x80\xaertl"};
    char longest[NAME_MAX + 1];

    memset(longest, '\xe4', NAME_MAX);
    longest[NAME_MAX] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        write_file(f->root, names[i], names[i]);
    write_file(f->root, longest, "long");
    assert_int_equal(publish(f)->n, ARRAY_SIZE(names) + 1);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        assert_published(f->list, names[i], names[i]);
        for (const char *c = find(f->list, names[i])->host_path; *c; c++)
            assert_true(*c > ' ' && *c < 0x7f);
    }
    assert_published(f->list, longest, "long");
}

TEST_WITH(test_deep_tree, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    int fd = dup(f->root);

    publish(f);
    for (int i = 0; i < 6000; i++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    write_file(fd, "bottom", "deep");
    close(fd);
    write_file(f->root, "sibling", "here");
    assert_int_equal(publish(f)->n, 2);
    assert_published(f->list, "sibling", "here");
    assert_non_null(f->list->entries[0].skipped);
    assert_string_equal(f->list->entries[0].skipped, "nested too deeply");
    assert_int_equal(publish(f)->n, 0);
}

TEST_WITH(test_hard_links, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;

    write_file(f->root, "one", "first");
    publish(f);
    assert_int_equal(linkat(f->root, "one", f->root, "two", 0), 0);
    assert_int_equal(publish(f)->n, 1);
    assert_published(f->list, "two", "first");
    write_file(f->root, "one", "second");
    assert_int_equal(publish(f)->n, 2);
    assert_published(f->list, "one", "second");
    assert_published(f->list, "two", "second");

    assert_int_equal(linkat(f->root, "one", f->outside, "three", 0), 0);
    unlinkat(f->root, "two", 0);
    assert_int_equal(publish(f)->n, 0);
    write_file(f->outside, "three", "third"); /* no event says so */
    assert_int_equal(publish(f)->n, 1);
    assert_published(f->list, "one", "third");

    unlinkat(f->outside, "three", 0);
    publish(f);
    publish(f);
    assert_false(artifacts_dirty(f->artifacts)); /* back to events */
}

TEST_WITH(test_times_do_not_hide, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    struct stat st;

    write_file(f->root, "file", "before");
    publish(f);
    assert_int_equal(fstatat(f->root, "file", &st, 0), 0);
    write_file(f->root, "file", "AFTER!");
    assert_int_equal(utimensat(f->root, "file", (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
    assert_int_equal(publish(f)->n, 1);
    assert_published(f->list, "file", "AFTER!");

    assert_int_equal(fchmodat(f->root, "file", 04755, 0), 0); /* not a change of what it holds */
    assert_int_equal(publish(f)->n, 0);
    assert_int_equal(utimensat(f->root, "file", (struct timespec[]){{1, 0}, {1, 0}}, 0), 0);
    assert_int_equal(publish(f)->n, 1);
    assert_int_equal(stat(f->list->entries[0].host_path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
}

/* A young change time proves nothing: the next change may have the same. */
TEST(test_identity)
{
    FileIdentity before = {.ino = 1, .type = S_IFREG, .size = 1, .mtime = {1, 1}, .ctime = {1, 1}},
                 now = before;

    assert_int_equal(identity_compare(&before, &now), IDENTITY_SAME);
    before.recent = true;
    assert_int_equal(identity_compare(&before, &now), IDENTITY_UNSURE);
    before.recent = false;
    now.dev = 7; /* the machine has restarted */
    assert_int_equal(identity_compare(&before, &now), IDENTITY_UNSURE);
    now.dev = before.dev;
    now.ctime.tv_nsec++;
    assert_int_equal(identity_compare(&before, &now), IDENTITY_UNSURE);
    now.mtime.tv_nsec++;
    assert_int_equal(identity_compare(&before, &now), IDENTITY_OTHER);

    struct stat st = {.st_mode = S_IFREG};
    assert_false(identity_of(&st).recent);
    clock_gettime(CLOCK_REALTIME, &st.st_ctim);
    assert_true(identity_of(&st).recent);
    st.st_ctim.tv_sec += 3600; /* the clock was set back */
    assert_true(identity_of(&st).recent);
}

TEST_WITH(test_memory_mapping, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    int fd = openat(f->root, "map", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    assert_int_equal(ftruncate(fd, 4), 0);
    char *map = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    close(fd);
    publish(f);
    memcpy(map, "data", 4);
    munmap(map, 4);
    assert_int_equal(publish(f)->n, 1);
    assert_published(f->list, "map", "data");
}

TEST_WITH(test_limits, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    ArtifactLimits limits = artifact_limits_default;

    limits.publish = (PublishLimits){.file_bytes = 11, .call_bytes = 20, .call_files = 3, .list_entries = 5};
    fixture_watch(f, &limits);
    write_file(f->root, "a", "0123456789");
    write_file(f->root, "b", "0123456789a");
    publish(f);
    assert_skipped(f->list, f->list->entries[0].skipped ? "a" : "b", "size limit of one call");
    for (char name[] = "c"; *name < 'i'; (*name)++)
        write_file(f->root, name, "");
    publish(f);
    assert_int_equal(f->list->n, 5);
    assert_int_equal(f->list->omitted, 1);
    size_t published = 0;
    for (size_t i = 0; i < f->list->n; i++)
        published += !f->list->entries[i].skipped;
    assert_int_equal(published, 3);
    assert_int_equal(publish(f)->n, 0);
}

TEST_WITH(test_write_error_loses_no_sibling, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    struct rlimit before, small = {4096, RLIM_INFINITY};
    char text[8193];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    write_file(f->root, "large", text);
    write_file(f->root, "small", "here");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    publish(f);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(f->list->n, 2);
    assert_skipped(f->list, "large", "cannot be copied");
    assert_published(f->list, "small", "here");
}

/* More events than the kernel queues: what was lost is found by looking. */
TEST_WITH(test_overflow, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;

    publish(f);
    for (int i = 0; i < 20000; i++) {
        write_file(f->root, i % 2 ? "a" : "b", "");
        unlinkat(f->root, i % 2 ? "a" : "b", 0);
    }
    mkdirat(f->root, "late", 0755);
    write_file(f->root, "late/file", "found");
    assert_int_equal(publish(f)->n, 1);
    assert_published(f->list, "late/file", "found");
    write_file(f->root, "late/file", "again");
    assert_int_equal(publish(f)->n, 1);
    assert_false(artifacts_dirty(f->artifacts));
}

TEST_WITH(test_too_many_directories, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    ArtifactLimits limits = artifact_limits_default;
    char name[32];

    limits.finder.directories = 4;
    fixture_watch(f, &limits);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        mkdirat(f->root, name, 0755);
        strcat(name, "/file");
        write_file(f->root, name, name);
    }
    assert_int_equal(publish(f)->n, 8);
    assert_int_equal(publish(f)->n, 0);
    write_file(f->root, "d7/file", "changed");
    assert_int_equal(publish(f)->n, 1);
    assert_published(f->list, "d7/file", "changed");
    assert_int_equal(publish(f)->n, 0);
}

TEST_WITH(test_too_many_entries, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    ArtifactLimits limits = artifact_limits_default;
    char name[32];

    limits.finder.entries = 10;
    fixture_watch(f, &limits);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "%d", i);
        write_file(f->root, name, name);
    }
    publish(f);
    assert_true(f->list->incomplete);
    assert_in_range(f->list->n, 8, 10);
}

typedef struct Done {
    unsigned times;
    ArtifactList *list;
} Done;

static void on_done(void *userdata, ArtifactList *list)
{
    Done *done = userdata;

    done->times++;
    done->list = list;
}

TEST_WITH(test_one_after_the_other, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    Done first = {0}, accepted = {0}, last = {0};

    write_file(f->root, "file", "data");
    assert_int_equal(artifacts_publish(f->artifacts, f->worker, on_done, &first), 0);
    assert_int_equal(artifacts_accept(f->artifacts, f->worker, on_done, &accepted), 0);
    assert_int_equal(artifacts_publish(f->artifacts, f->worker, on_done, &last), 0);
    assert_true(artifacts_dirty(f->artifacts));
    worker_wait(f->worker);
    assert_true(first.times == 1 && accepted.times == 1 && last.times == 1);
    assert_int_equal(first.list->n, 1);
    assert_null(accepted.list);
    assert_int_equal(last.list->n, 0);
    artifact_list_free(first.list);
    artifact_list_free(last.list);
}

TEST_WITH(test_free_while_publishing, fixture_setup, fixture_teardown)
{
    Fixture *f = *state;
    Done under_way = {0}, waiting = {0};

    write_file(f->root, "file", "data");
    assert_int_equal(artifacts_publish(f->artifacts, f->worker, on_done, &under_way), 0);
    assert_int_equal(artifacts_publish(f->artifacts, f->worker, on_done, &waiting), 0);
    f->artifacts = artifacts_free(f->artifacts);
    worker_wait(f->worker);
    assert_true(under_way.times == 1 && waiting.times == 1);
    assert_int_equal(under_way.list->n, 1);
    artifact_list_free(under_way.list);
    artifact_list_free(waiting.list);
}

TEST(test_merge)
{
    ArtifactList *one = artifact_list_new(), *two = artifact_list_new();

    assert_int_equal(artifact_list_add(one, &(Artifact){.path = strdup("/a")}), 0);
    assert_int_equal(artifact_list_add(two, &(Artifact){.path = strdup("/b"), .skipped = strdup("why")}), 0);
    two->omitted = 3;
    ArtifactList *all = artifact_list_merge(artifact_list_merge(NULL, one), artifact_list_merge(two, NULL));
    assert_int_equal(all->n, 2);
    assert_int_equal(all->omitted, 3);
    assert_string_equal(all->entries[1].path, "/b");
    artifact_list_free(all);
}
