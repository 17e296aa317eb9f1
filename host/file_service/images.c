/* Memory images, which many sandboxes begin with: one file of each, and a copy in memory that nobody can
 * change for whoever uses it. Both are made on a thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "host/file_service/internal.h"
#include "host/files/beneath.h"
#include "host/files/room.h"
#include "host/files/session_disk.h"
#include "host/files/snapshot.h"

#define DIRECTORY "memory-images"

/* Name of a file until it is whole. */
#define NEW_MARK "."

static int copy(int from, int to, uint64_t size)
{
    for (off_t at = 0; (uint64_t)at < size;) {
        ssize_t n = sendfile(to, from, &at, size - (uint64_t)at);

        if (n <= 0)
            return n < 0 ? -errno : -ENODATA; /* it was cut */
    }
    return 0;
}

/* Writes what has come to the file of that name. */
static int write_file(FileServiceJob *job)
{
    const JobImage *asked = &job->request.as_KEEP_IMAGE;
    char name[NAME_MAX + 1];
    Space there = {0};
    int r;

    space_add(&there, job->store, ".");
    if (there.bytes > asked->budget || asked->bytes > asked->budget - there.bytes)
        return -EDQUOT;
    snprintf(name, sizeof(name), NEW_MARK "%s", job->entry);
    job->files = openat(job->store, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    r = job->files < 0 ? -errno : copy(job->came, job->files, asked->bytes);
    if (r == 0 && renameat(job->store, name, job->store, job->entry) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(job->store, name, 0);
    return r;
}

/* As the interpreter knows it in its mappings (guest/interpreter/checkpoint/keep.c). */
static int read_into_memory(FileServiceJob *job)
{
    _cleanup_(closep) int from = openat(job->store, job->entry, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    int r;

    if (from < 0 || fstat(from, &st) < 0)
        return -errno;
    job->passed = memfd_create("limpet-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    job->size = (uint64_t)st.st_size;
    r = job->passed < 0 ? -errno : copy(from, job->passed, job->size);
    if (r == 0 &&
        fcntl(job->passed, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        r = -errno;
    return r;
}

static void run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    int r = job->kind == JOB_KEEP_IMAGE ? write_file(job) : 0;

    if (r == 0)
        r = read_into_memory(job);
    if (r < 0)
        problem_set(&job->problem, ERR_INTERNAL, "the memory image cannot be had: %s", strerror(-r));
}

/* False when the job has failed. */
static bool open_images(FileServiceJob *job)
{
    _cleanup_(closep) int state = open(job->file_service->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    job->store = state < 0 ? -errno : beneath_mkdirs(state, DIRECTORY, PRIVATE_MODE, NOBODY_ELSE);
    if (job->store < 0)
        job_fail_errno(job, "memory images cannot be kept", job->store);
    return job->store >= 0;
}

void do_image(FileServiceJob *job)
{
    int r;

    job->entry = job_id(job, job->request.as_OPEN_IMAGE.image);
    if (!job->entry) {
        job_fail(job);
        return;
    }
    if (!open_images(job))
        return;
    r = job->kind == JOB_KEEP_IMAGE && job->came < 0
            ? -EBADF
            : worker_submit(job->file_service->worker, &job->work, run, job_memory_taken);
    if (r < 0)
        job_fail_errno(job, "the memory image cannot be had now", r);
}

/* Also a new one, which is in the making. */
static bool is_kept(void *userdata, const char *name)
{
    const Value *images = userdata;

    for (uint32_t i = 0; i < value_count(images); i++)
        if (text_equal(value_text(images, i), *name == *NEW_MARK ? name + 1 : name))
            return true;
    return false;
}

void do_sweep_images(FileServiceJob *job)
{
    if (!open_images(job))
        return;
    snapshot_sweep(job->store, job->file_service->removers, is_kept, &job->request.as_SWEEP_IMAGES.images);
    job_end(job);
}
