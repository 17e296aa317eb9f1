#include "host/files/disk_template.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFER_SIZE (64u << 10)
#define SEALS       (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

typedef struct DiskTemplate {
    DiskSize size;
    int file;
    uint64_t used; /* when it was asked for last, counted in such questions; 0: there is none here */
} DiskTemplate;

static DiskTemplate templates[DISK_TEMPLATES_MAX];
static uint64_t questions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- which there are ---- */

/* Returns a descriptor of a new one. */
static int make(DiskSize size, Problem *problem)
{
    _cleanup_(closep) int file = memfd_create("limpet-disk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (file < 0)
        return problem_set(problem, ERR_INTERNAL, "no memory for a disk: %s", strerror(errno));
    r = disk_image_format(file, size, problem);
    if (r < 0)
        return r;
    if (fcntl(file, F_ADD_SEALS, SEALS) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot seal memory: %s", strerror(errno));
    return take_fd(&file);
}

static DiskTemplate *find(DiskSize size)
{
    for (size_t i = 0; i < ARRAY_SIZE(templates); i++)
        if (templates[i].used && templates[i].size.bytes == size.bytes &&
            templates[i].size.files == size.files)
            return &templates[i];
    return NULL;
}

static void forget(DiskTemplate *template)
{
    if (template->used)
        close(template->file);
    *template = (DiskTemplate){0};
}

/* Room for one more. */
static DiskTemplate *make_room(void)
{
    DiskTemplate *oldest = &templates[0];

    for (size_t i = 1; i < ARRAY_SIZE(templates); i++)
        if (templates[i].used < oldest->used)
            oldest = &templates[i];
    forget(oldest);
    return oldest;
}

static int find_or_make(DiskTemplate **ret, DiskSize size, Problem *problem)
{
    DiskTemplate *template = find(size);

    if (!template) {
        int file = make(size, problem);

        if (file < 0)
            return file;
        template = make_room();
        *template = (DiskTemplate){.size = size, .file = file};
    }
    template->used = ++questions;
    *ret = template;
    return 0;
}

/* Returns a descriptor of the caller's own: the template may be forgotten while it is read. Several who ask
 * for one that is not there yet wait for the first of them to make it. */
static int borrow(DiskSize size, Problem *problem)
{
    DiskTemplate *template;
    int r;

    pthread_mutex_lock(&lock);
    r = find_or_make(&template, size, problem);
    if (r == 0) {
        r = fcntl(template->file, F_DUPFD_CLOEXEC, 0);
        if (r < 0)
            problem_set(problem, ERR_INTERNAL, "cannot get a descriptor: %s", strerror(errno));
    }
    pthread_mutex_unlock(&lock);
    return r < 0 ? -EPROTO : r;
}

void disk_templates_forget(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < ARRAY_SIZE(templates); i++)
        forget(&templates[i]);
    pthread_mutex_unlock(&lock);
}

/* ---- copying ---- */

static int copy_data(int from, int to, off_t start, off_t end)
{
    uint8_t buffer[BUFFER_SIZE];

    while (start < end) {
        ssize_t n = pread(from, buffer, (size_t)MIN(end - start, (off_t)sizeof(buffer)), start);

        if (n > 0)
            n = pwrite(to, buffer, (size_t)n, start);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        start += n;
    }
    return 0;
}

static int copy_all(int from, int to)
{
    for (off_t start, end = 0;;) {
        int r;

        start = lseek(from, end, SEEK_DATA);
        if (start < 0)
            return errno == ENXIO ? 0 : -errno; /* no data is left, or it cannot be told */
        end = lseek(from, start, SEEK_HOLE);
        r = end < 0 ? -errno : copy_data(from, to, start, end);
        if (r < 0)
            return r;
    }
}

static int copy_template(DiskSize size, int file, Problem *problem)
{
    _cleanup_(closep) int template = borrow(size, problem);
    int r;

    if (template <0)
        return template;
    r = copy_all(template, file);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot write the disk: %s", strerror(-r));
    return 0;
}

int disk_template_make(int directory, const char *name, DiskSize size, Problem *problem)
{
    int r;

    unlinkat(directory, name, 0);
    _cleanup_(closep) int file =
        openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = disk_image_set_size(file, size, problem);
    if (r == 0)
        r = copy_template(size, file, problem);
    if (r < 0)
        unlinkat(directory, name, 0);
    return r < 0 ? r : take_fd(&file);
}
