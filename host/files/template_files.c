#include "host/files/template_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/remove.h"
#include "host/files/snapshot.h"
#include "host/files/treecopy.h"

int template_files_store(const char *state_dir)
{
    char path[PATH_MAX];
    int fd;

    if (snprintf(path, sizeof(path), "%s/template-files", state_dir) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int template_files_take(int store, const char *id, int files, uint64_t budget, uint64_t *ret_bytes,
                        Problem *problem)
{
    int r;

    if (mkdirat(store, id, 0700) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot keep the files of the template: %s",
                           strerror(errno));
    _cleanup_(closep) int to = openat(store, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = to < 0
            ? problem_set(problem, ERR_INTERNAL, "cannot keep the files of the template: %s", strerror(errno))
            : treecopy(files, to, ".limpet", budget, ret_bytes, problem);
    if (r < 0)
        remove_tree(store, id, NULL);
    if (problem->code == ERR_TOO_LARGE)
        problem_prefix(problem, "the files of the template");
    return r;
}

int template_files_put(int store, const char *id, int files, Problem *problem)
{
    int r = snapshot_stage(store, id, files, problem);

    if (r == 0)
        r = snapshot_restore(files, problem);
    if (problem->code == ERR_TOO_LARGE)
        problem_set(problem, ERR_TOO_LARGE,
                    "the files of the template have no room in /session (options disk and files)");
    else if (r < 0)
        problem_prefix(problem, "the files of the template");
    return r;
}

/* Counts the entries at the start: one that is set aside gets a name that would be found as well. */
static size_t count(DIR *stream)
{
    size_t n = 0;

    while (readdir(stream))
        n++;
    rewinddir(stream);
    return n;
}

void template_files_sweep(int store, Worker *worker, bool (*is_kept)(void *userdata, const char *id),
                          void *userdata)
{
    char(*names)[NAME_MAX + 1];
    size_t n = 0, most;
    DIR *stream;

    if (beneath_open_list(store, ".", &stream) < 0)
        return;
    most = count(stream);
    names = calloc(most, sizeof(*names));
    for (struct dirent *entry; names && n < most && (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !is_kept(userdata, entry->d_name))
            strcpy(names[n++], entry->d_name);
    closedir(stream);
    for (size_t i = 0; i < n; i++)
        snapshot_set_aside(store, names[i], worker);
    free(names);
}
