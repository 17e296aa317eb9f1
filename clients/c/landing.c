#include "clients/c/landing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "proto/base/base.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static int make_all(const char *top)
{
    _cleanup_(freep) char *path = strdup(top);

    if (!path)
        return -ENOMEM;
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(path, 0777) < 0 && errno != EEXIST ? -errno : 0;
}

int landing_init(Landing *landing, const char *top)
{
    int r = make_all(top);

    if (r < 0)
        return r;
    landing->top_fd = open(top, DIRECTORY);
    return landing->top_fd < 0 ? -errno : 0;
}

static void leave(Landing *landing)
{
    close_fd(&landing->above_fd);
    free(landing->above);
    landing->above = NULL;
}

void landing_deinit(Landing *landing)
{
    leave(landing);
    close_fd(&landing->top_fd);
}

/* Goes one name further; closes what *fd was, unless it is the top. */
static int step(const Landing *landing, int *fd, const char *name)
{
    int inside;

    if (mkdirat(*fd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    inside = openat(*fd, name, DIRECTORY | O_NOFOLLOW);
    if (inside < 0)
        return -errno;
    if (*fd != landing->top_fd)
        close(*fd);
    *fd = inside;
    return 0;
}

static int enter(Landing *landing, const char *path)
{
    _cleanup_(freep) char *names = strdup(path);
    char *rest = names, *name;
    int fd = landing->top_fd, r = 0;

    if (!names)
        return -ENOMEM;
    if (landing->above && strcmp(landing->above, path) == 0)
        return 0;
    leave(landing);
    while (r == 0 && (name = strsep(&rest, "/")))
        r = step(landing, &fd, name);
    if (r < 0) {
        if (fd != landing->top_fd)
            close(fd);
        return r;
    }
    landing->above_fd = fd;
    landing->above = strdup(path);
    return landing->above ? 0 : -ENOMEM;
}

/* *ret_fd stays the landing's. */
static int place(Landing *landing, const char *path, int *ret_fd, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    int r = 0;

    *ret_fd = landing->top_fd;
    *ret_name = path;
    if (!slash)
        return 0;
    _cleanup_(freep) char *above = strndup(path, (size_t)(slash - path));
    r = above ? enter(landing, above) : -ENOMEM;
    *ret_fd = landing->above_fd;
    *ret_name = slash + 1;
    return r;
}

int landing_directory(Landing *landing, const char *path)
{
    return enter(landing, path);
}

int landing_symlink(Landing *landing, const char *path, const char *target)
{
    const char *name;
    int fd, r = place(landing, path, &fd, &name);

    if (r < 0)
        return r;
    if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    return symlinkat(target, fd, name) < 0 ? -errno : 0;
}

int landing_file(Landing *landing, const char *path, unsigned mode, LandingFile *ret)
{
    int r = place(landing, path, &ret->above_fd, &ret->name);
    uint64_t random;

    if (r < 0)
        return r;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return -EIO;
    snprintf(ret->temporary, sizeof(ret->temporary), ".limpet-%016llx", (unsigned long long)random);
    ret->fd = openat(ret->above_fd, ret->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     mode & 0777);
    return ret->fd < 0 ? -errno : 0;
}

int landing_file_end(LandingFile *file, int error)
{
    if (close(file->fd) < 0 && error == 0)
        error = -errno;
    if (error == 0 && renameat(file->above_fd, file->temporary, file->above_fd, file->name) < 0)
        error = -errno;
    if (error != 0)
        unlinkat(file->above_fd, file->temporary, 0);
    return error;
}
