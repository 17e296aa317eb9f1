/* Benchmark of the controller's work on artifacts, without a controller: the library it is linked with, on a
 * directory of its own below the current one. Arguments: what, and a number.
 *
 *     check COUNT    COUNT times whether there is something to publish, when there is not
 *     publish BYTES  a file of that size was written: find it, copy it and hash it
 *     copy BYTES     the floor: copy and hash such a file, knowing where it is */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/files/artifacts.h"
#include "host/files/tree.h"
#include "tests/bench/bench.h"

#define CHUNK ((size_t)256 << 10)

typedef struct Files {
    char root[32], published[32];
    uint64_t number, counter;
    uint8_t *bytes;
    Loop *loop;
    Worker *worker;
    Artifacts *artifacts;
    ArtifactList *list;
} Files;

static int write_file(Files *f)
{
    char path[64];
    int fd, bad;

    memset(f->bytes, (int)(++f->counter & 0xff), f->number);
    snprintf(path, sizeof(path), "%s/file", f->root);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bad = fd < 0 || write(fd, f->bytes, f->number) != (ssize_t)f->number;
    close(fd);
    return bad;
}

static int check(void *context, uint64_t *begin)
{
    const Files *f = context;

    for (uint64_t i = 0; i < f->number; i++)
        if (artifacts_dirty(f->artifacts))
            return 1;
    return 0;
}

static void keep(void *userdata, ArtifactList *list)
{
    ((Files *)userdata)->list = list;
}

static int publish(void *context, uint64_t *begin)
{
    Files *f = context;

    f->list = artifact_list_free(f->list);
    if (write_file(f))
        return 1;
    *begin = clock_now();
    if (!artifacts_dirty(f->artifacts) || artifacts_publish(f->artifacts, f->worker, keep, f))
        return 1;
    worker_wait(f->worker);
    return !f->list || f->list->n != 1 || f->list->entries[0].size != f->number;
}

static int copy_and_hash(int from, int to, Sha256 *sha)
{
    static uint8_t chunk[CHUNK];
    uint8_t digest[SHA256_SIZE];
    ssize_t n;

    if (sha256_start(sha))
        return 1;
    while ((n = read(from, chunk, sizeof(chunk))) > 0)
        if (sha256_update(sha, chunk, (size_t)n) || write(to, chunk, (size_t)n) != n)
            return 1;
    return n < 0 || sha256_finish(sha, digest);
}

static int copy(void *context, uint64_t *begin)
{
    Files *f = context;
    char source[64], target[64];
    Sha256 sha = SHA256_NULL;
    int from, to, bad;

    snprintf(source, sizeof(source), "%s/file", f->root);
    snprintf(target, sizeof(target), "%s/copy", f->published);
    if (write_file(f))
        return 1;
    *begin = clock_now();
    unlink(target);
    from = open(source, O_RDONLY | O_CLOEXEC);
    to = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bad = from < 0 || to < 0 || copy_and_hash(from, to, &sha);
    sha256_deinit(&sha);
    close(from);
    close(to);
    return bad;
}

static bench_round choose(const char *what)
{
    return strcmp(what, "check") == 0     ? check
           : strcmp(what, "publish") == 0 ? publish
           : strcmp(what, "copy") == 0    ? copy
                                          : NULL;
}

static int set_up(Files *f)
{
    snprintf(f->root, sizeof(f->root), "root-%d", (int)getpid());
    snprintf(f->published, sizeof(f->published), "published-%d", (int)getpid());
    f->bytes = malloc(f->number);
    return !f->bytes || mkdir(f->root, 0755) < 0 || mkdir(f->published, 0755) < 0 || loop_new(&f->loop) ||
           worker_new(&f->worker, f->loop, 1, 5) ||
           artifacts_new(&f->artifacts, f->root, "/session/artifacts", f->published);
}

static void tear_down(Files *f)
{
    artifacts_free(f->artifacts);
    artifact_list_free(f->list);
    worker_free(f->worker);
    loop_free(f->loop);
    remove_path(f->root);
    remove_path(f->published);
    free(f->bytes);
}

int main(int argc, char **argv)
{
    bench_round round = argc == 3 ? choose(argv[1]) : NULL;
    Files f = {.number = argc == 3 ? strtoull(argv[2], NULL, 10) : 0};
    int status;

    if (!round || f.number == 0)
        return 2;
    status = set_up(&f);
    if (!status && round == check) {
        /* Nothing to publish: what is there from the beginning counts as new once. */
        status = artifacts_publish(f.artifacts, f.worker, keep, &f) != 0;
        worker_wait(f.worker);
    }
    status = status || bench_serve(round, &f);
    if (status)
        fprintf(stderr, "%s failed\n", argv[1]);
    tear_down(&f);
    return status;
}
