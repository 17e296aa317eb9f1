/* A directory under watch, one to publish into, and one beside them, below a temporary directory. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/artifacts.h"
#include "host/files/tree.h"
#include "tests/support/cmocka.h"

typedef struct Fixture {
    char base[64];
    int root;    /* what sandboxed code writes */
    int outside; /* on the same filesystem, not watched */
    Loop *loop;
    Worker *worker;
    Artifacts *artifacts;
    ArtifactList *list; /* of the last publication */
} Fixture;

static inline int make_directory(const char *base, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", base, name);
    assert_int_equal(mkdir(path, 0755), 0);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline void fixture_watch(Fixture *f, const ArtifactLimits *limits)
{
    char root[PATH_MAX], published[PATH_MAX];

    snprintf(root, sizeof(root), "%s/root", f->base);
    snprintf(published, sizeof(published), "%s/published", f->base);
    artifacts_free(f->artifacts);
    assert_int_equal(artifacts_new(&f->artifacts, root, "/session/artifacts", published), 0);
    if (limits)
        artifacts_set_limits(f->artifacts, limits);
}

static inline int fixture_setup(void **state)
{
    Fixture *f = calloc(1, sizeof(*f));

    umask(077); /* what is published must not depend on it */
    strcpy(f->base, "/tmp/limpet-test-XXXXXX");
    assert_non_null(mkdtemp(f->base));
    f->root = make_directory(f->base, "root");
    f->outside = make_directory(f->base, "outside");
    assert_int_equal(loop_new(&f->loop), 0);
    assert_int_equal(worker_new(&f->worker, f->loop, 2, 5), 0);
    fixture_watch(f, NULL);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    Fixture *f = *state;

    artifacts_free(f->artifacts);
    artifact_list_free(f->list);
    worker_free(f->worker);
    loop_free(f->loop);
    close(f->root);
    close(f->outside);
    assert_int_equal(remove_path(f->base), 0);
    free(f);
    return 0;
}

static inline void fixture_take(void *userdata, ArtifactList *list)
{
    ((Fixture *)userdata)->list = list;
}

/* Publishes as a session does after a call. An empty list when nothing was dirty. */
static inline ArtifactList *publish(Fixture *f)
{
    f->list = artifact_list_free(f->list);
    if (artifacts_dirty(f->artifacts)) {
        assert_int_equal(artifacts_publish(f->artifacts, f->worker, fixture_take, f), 0);
        worker_wait(f->worker);
    } else {
        f->list = artifact_list_new();
    }
    assert_non_null(f->list);
    return f->list;
}

static inline const Artifact *find(const ArtifactList *list, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "/session/artifacts/%s", name);
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->entries[i].path, path) == 0)
            return &list->entries[i];
    return NULL;
}

static inline void write_file(int dirfd, const char *name, const char *text)
{
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* The whole of a small file, as text to be freed. */
static inline char *read_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char *text = calloc(1, 65536);

    assert_true(fd >= 0);
    assert_true(read(fd, text, 65535) >= 0);
    close(fd);
    return text;
}

static inline void assert_published(const ArtifactList *list, const char *name, const char *text)
{
    const Artifact *artifact = find(list, name);

    assert_non_null(artifact);
    assert_null(artifact->skipped);
    _cleanup_(freep) char *copy = read_file(artifact->host_path);
    assert_string_equal(copy, text);
    assert_int_equal(artifact->size, strlen(text));
}

static inline void assert_skipped(const ArtifactList *list, const char *name, const char *reason)
{
    const Artifact *artifact = find(list, name);

    assert_non_null(artifact);
    assert_non_null(artifact->skipped);
    assert_null(artifact->host_path);
    assert_non_null(strstr(artifact->skipped, reason));
}
