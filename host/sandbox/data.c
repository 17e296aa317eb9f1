#include "host/sandbox/data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "host/files/access.h"
#include "host/files/beneath.h"

static int path_of(char ret[static PATH_MAX], int fd)
{
    char link[FD_PATH_SIZE];
    ssize_t n = readlink(fd_path(link, fd), ret, PATH_MAX - 1);

    if (n < 0)
        return -errno;
    ret[n] = '\0';
    return 0;
}

static bool is_below(const char *path, const char *directory)
{
    size_t n = strcmp(directory, "/") == 0 ? 0 : strlen(directory);

    return strncmp(path, directory, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* ---- what is mounted ---- */

/* Names in the kernel's list have some bytes as \ooo. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        unsigned byte;

        if (sscanf(from, "\\%3o", &byte) == 1) {
            *to = (char)byte;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* id parent device root MOUNT-POINT options [tags] - TYPE ... */
static bool is_of_processes(char *line, const char *directory)
{
    char *type = strstr(line, " - "), point[PATH_MAX];

    if (!type || strncmp(type, " - proc ", 8) != 0 || sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1)
        return false;
    unescape(point);
    return is_below(point, directory);
}

/* Returns whether a proc filesystem is mounted in the directory; true when the list of mounts cannot be
 * read. */
static bool has_processes(const char *directory)
{
    FILE *list = fopen("/proc/self/mountinfo", "re");
    char *line _cleanup_(freep) = NULL;
    size_t size = 0;
    bool found = !list;

    while (!found && getline(&line, &size, list) >= 0)
        found = is_of_processes(line, directory);
    if (list)
        fclose(list);
    return found;
}

/* ---- what may be seen ---- */

static int refuse(Problem *problem, const char *directory, const char *what)
{
    return problem_set(problem, ERR_DENIED,
                       "the data directory %s contains %s, so only root may use it; choose a directory in it",
                       directory, what);
}

static int check(const Paths *paths, uid_t user, int fd, Problem *problem)
{
    char directory[PATH_MAX];
    struct statfs fs;
    struct stat st;

    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || path_of(directory, fd) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot inspect the data directory: %s", strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return problem_set(problem, ERR_BAD_REQUEST, "data: %s is not a directory", directory);
    if (user == paths->user)
        return 0;
    if (fs.f_type == PROC_SUPER_MAGIC || has_processes(directory))
        return refuse(problem, directory, "the processes of the host");
    if (is_below(paths->state_dir, directory) || is_below(paths->runtime_dir, directory) ||
        is_below(paths->socket, directory))
        return refuse(problem, directory, "directories of the controller");
    return 0;
}

int data_open(const Paths *paths, uid_t user, Text path, Problem *problem)
{
    char *terminated _cleanup_(freep) = text_dup(path);
    int fd _cleanup_(closep) = -1;

    if (!terminated)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (strlen(terminated) != path.size || *terminated != '/')
        return problem_set(problem, ERR_BAD_REQUEST, "data must be the absolute path of a host directory");
    fd = open_as(user, terminated, O_RDONLY | O_DIRECTORY);
    if (fd == -ENOTDIR || fd == -ENXIO)
        return problem_set(problem, ERR_BAD_REQUEST, "data: %s is not a directory", terminated);
    if (fd < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot use the data directory %s: %s", terminated,
                           strerror(-fd));
    return check(paths, user, fd, problem) < 0 ? -EPROTO : take_fd(&fd);
}

int data_find(char **ret, const Paths *paths, uid_t user, Text path, Problem *problem)
{
    int fd _cleanup_(closep) = data_open(paths, user, path, problem);
    char canonical[PATH_MAX];

    if (fd < 0)
        return fd;
    if (path_of(canonical, fd) < 0 || !(*ret = strdup(canonical)))
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    return 0;
}
