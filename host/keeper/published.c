/* Reading what was published, for clients that cannot open it themselves. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/keeper/internal.h"

/* outputs/ID/…, or sessions/ID/artifacts/…: nothing else below the state directory is anybody's to read. */
static bool is_published(const char *path)
{
    static const char outputs[] = "outputs/", sessions[] = "sessions/", artifacts[] = "/artifacts/";
    const char *slash;

    if (strstr(path, "/../") || strstr(path, "//"))
        return false;
    if (strncmp(path, outputs, strlen(outputs)) == 0)
        return true;
    if (strncmp(path, sessions, strlen(sessions)) != 0)
        return false;
    slash = strchr(path + strlen(sessions), '/');
    return slash && strncmp(slash, artifacts, strlen(artifacts)) == 0;
}

static int read_piece(KeeperJob *job, int fd, uint64_t offset, uint64_t size)
{
    uint64_t left = offset < job->size ? job->size - offset : 0;
    size_t n = (size_t)MIN(MIN(size, left), (uint64_t)LIMIT_FILE_CHUNK);
    uint8_t *space = buf_reserve(&job->data, n);
    ssize_t got = space ? pread(fd, space, n, (off_t)offset) : -1;

    if (!space)
        return -ENOMEM;
    if (got < 0)
        return -errno;
    buf_commit(&job->data, (size_t)got);
    return 0;
}

static int read_published(KeeperJob *job, const char *path)
{
    const JobReadPublished *asked = &job->request.as_READ_PUBLISHED;
    int state _cleanup_(closep) = open(job->keeper->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd _cleanup_(closep) = -1;
    struct stat st = {0};

    if (!is_published(path))
        return -ENOENT;
    fd = state < 0 ? -errno : beneath_open_regular(state, path, &st);
    if (fd < 0)
        return fd;
    job->size = (uint64_t)st.st_size;
    return read_piece(job, fd, asked->offset, asked->size);
}

static void run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    char *path _cleanup_(freep) = text_dup(job->request.as_READ_PUBLISHED.path);
    int r = path ? read_published(job, path) : -ENOMEM;

    if (r < 0)
        problem_set(&job->problem, r == -ENOMEM ? ERR_INTERNAL : ERR_NO_SUCH_FILE,
                    "what was published is not there any more: %s", strerror(-r));
}

static void done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const JobGot got = {
        .data =
            job->data.size > 0 ? (Text){(const char *)buf_head(&job->data), job->data.size} : (Text){"", 0},
        .size = job->size,
    };

    if (job->problem.code != ERR_NONE)
        job_fail(job);
    else
        job_done(job, JobGot, &got);
}

void do_read_published(KeeperJob *job)
{
    int r = worker_submit(job->keeper->worker, &job->work, run, done);

    if (r < 0)
        job_fail_errno(job, "the file cannot be read now", r);
}
