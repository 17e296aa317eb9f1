#include "host/sandbox/data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/files/access.h"
#include "host/files/beneath.h"
#include "proto/base/clock.h"

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
    return is_below(point, directory) || is_below(directory, point);
}

/* Returns whether a proc filesystem is mounted in the directory, or has it in itself; true when the list of
 * mounts cannot be read. */
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

/* Asks the file system nothing, which may not answer. */
static int check(const Paths *paths, uid_t user, const char *directory, Problem *problem)
{
    if (user == paths->user)
        return 0;
    if (has_processes(directory))
        return refuse(problem, directory, "the processes of the host");
    if (is_below(paths->state_dir, directory) || is_below(paths->runtime_dir, directory) ||
        is_below(paths->socket, directory))
        return refuse(problem, directory, "directories of the controller");
    return 0;
}

/* ---- opening ---- */

#define PATIENCE (30 * NSEC_PER_SEC)
/* Openings of one user at once: whoever waits for one may have others open. */
#define OPENINGS_MAX 256u

struct DataOpening {
    List link; /* Sandboxes.openings */
    Sandboxes *all;
    uid_t user;
    char *path;
    bool under_way;
    int error; /* it could not even begin */
    LoopTimer timer;
    DataDone *done; /* NULL: nobody is to be told any more */
    void *userdata;
};

static void begin_next(Sandboxes *all, uid_t user);

static void opening_free(DataOpening *opening)
{
    list_remove(&opening->link);
    loop_timer_cancel(&opening->timer);
    free(opening->path);
    free(opening);
}

static void tell(DataOpening *opening, int directory, const char *path, const Problem *failure)
{
    DataDone *done = take(opening->done);

    if (done)
        done(opening->userdata, directory, path, failure);
    else
        close_fd(&directory);
}

static int explain(const DataOpening *opening, int error, Problem *problem)
{
    if (error == -ENOTDIR || error == -ENXIO)
        return problem_set(problem, ERR_BAD_REQUEST, "data: %s is not a directory", opening->path);
    return problem_set(problem, ERR_BAD_REQUEST, "cannot use the data directory %s: %s", opening->path,
                       strerror(-error));
}

static void on_opened(void *userdata, int fd)
{
    DataOpening *opening = userdata;
    Sandboxes *all = opening->all;
    uid_t user = opening->user;
    int directory _cleanup_(closep) = MAX(fd, -1);
    Problem problem = PROBLEM_NULL;
    char path[PATH_MAX] = "";

    if (fd < 0)
        explain(opening, fd, &problem);
    else if (path_of(path, fd) < 0)
        problem_set(&problem, ERR_INTERNAL, "cannot inspect the data directory: %s", strerror(errno));
    else
        check(all->paths, user, path, &problem);
    if (problem.code == ERR_NONE)
        tell(opening, take_fd(&directory), path, NULL);
    else
        tell(opening, -1, NULL, &problem);
    opening_free(opening);
    begin_next(all, user);
}

/* Keeps an opening that is under way, for its user's next ones wait for it. */
static void on_due(LoopTimer *timer)
{
    DataOpening *opening = container_of(timer, DataOpening, timer);
    Problem problem = PROBLEM_NULL;

    if (opening->error < 0) {
        on_opened(opening, opening->error);
        return;
    }
    problem_set(
        &problem, ERR_BAD_REQUEST,
        "cannot use the data directory %s: its file system, or that of another data directory of yours, "
        "has not answered within %u seconds; see to it, or leave data out",
        opening->path, (unsigned)(PATIENCE / NSEC_PER_SEC));
    tell(opening, -1, NULL, &problem);
    if (!opening->under_way)
        opening_free(opening);
}

static void begin_next(Sandboxes *all, uid_t user)
{
    const Paths *paths = all->paths;
    DataOpening *opening, *first = NULL;

    list_foreach (opening, &all->openings, DataOpening, link) {
        if (opening->user == user && opening->under_way)
            return;
        if (opening->user == user && !first)
            first = opening;
    }
    if (!first)
        return;
    first->under_way = true;
    first->error = open_as(all->loop, paths->inside && user == paths->user ? 0 : user, first->path,
                           O_RDONLY | O_DIRECTORY, on_opened, first);
    if (first->error < 0)
        loop_timer_set(all->loop, &first->timer, clock_now(), on_due);
}

static size_t count(const Sandboxes *all, uid_t user)
{
    DataOpening *opening;
    size_t n = 0;

    list_foreach (opening, (List *)&all->openings, DataOpening, link)
        n += opening->user == user;
    return n;
}

DataOpening *data_open(Sandboxes *all, uid_t user, Text path, DataDone *done, void *userdata,
                       Problem *problem)
{
    DataOpening *opening;
    char *terminated = text_dup(path);

    if (terminated && (strlen(terminated) != path.size || *terminated != '/')) {
        free(terminated);
        problem_set(problem, ERR_BAD_REQUEST, "data must be the absolute path of a host directory");
        return NULL;
    }
    if (count(all, user) >= OPENINGS_MAX) {
        free(terminated);
        problem_set(problem, ERR_LIMIT_REACHED,
                    "%u data directories are being opened for you, which is the limit; wait until some are",
                    OPENINGS_MAX);
        return NULL;
    }
    opening = terminated ? calloc(1, sizeof(*opening)) : NULL;
    if (!opening || loop_timer_set(all->loop, &opening->timer, clock_now() + PATIENCE, on_due) < 0) {
        free(opening);
        free(terminated);
        problem_set(problem, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    opening->all = all;
    opening->user = user;
    opening->path = terminated;
    opening->done = done;
    opening->userdata = userdata;
    list_append(&all->openings, &opening->link);
    begin_next(all, user);
    return opening;
}

DataOpening *data_forget(DataOpening *opening)
{
    if (!opening)
        return NULL;
    opening->done = NULL;
    if (!opening->under_way)
        opening_free(opening);
    return NULL;
}

static DataOpening *find_waited_for(const Sandboxes *all)
{
    DataOpening *opening;

    list_foreach (opening, (List *)&all->openings, DataOpening, link)
        if (opening->done)
            return opening;
    return NULL;
}

void data_shut_down(Sandboxes *all)
{
    Problem problem = PROBLEM_NULL;
    DataOpening *opening;

    problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    while ((opening = find_waited_for(all)))
        tell(opening, -1, NULL, &problem);
}
