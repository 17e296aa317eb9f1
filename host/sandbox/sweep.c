#include "host/sandbox/sweep.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/files/remove.h"
#include "host/sandbox/sandbox.h"
#include "proto/base/log.h"

bool sandboxes_use(const Sandboxes *all, const char *id)
{
    const Sandbox *sandbox;

    list_foreach (sandbox, &all->list, Sandbox, link)
        if (sessiondir_uses(&sandbox->directory, id))
            return true;
    return false;
}

static bool has_link(const Sandboxes *all, const char *name)
{
    const Sandbox *sandbox;

    list_foreach (sandbox, &all->list, Sandbox, link)
        if (sandbox->guest && strcmp(guest_name(sandbox->guest), name) == 0)
            return true;
    return false;
}

void sweep_links(const Sandboxes *all)
{
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *directory;

    snprintf(path, sizeof(path), "%s/guests", all->paths->runtime_dir);
    directory = opendir(path);
    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && !has_link(all, entry->d_name))
            remove_tree(dirfd(directory), entry->d_name, NULL);
    if (directory)
        closedir(directory);
    rmdir(path);
}

static bool has_directory(void *userdata, const char *id)
{
    return sandboxes_use(userdata, id);
}

static void on_swept(void *userdata, unsigned removed)
{
    Sandboxes *all = userdata;

    sessiondir_sweep(all->paths->state_dir, all->worker, has_directory, all);
    if (removed > 0)
        log_info("removed containers of an earlier controller", "count=%u", removed);
}

void sweep_sandboxes(Sandboxes *all)
{
    all->engine->ops->sweep(all->engine, on_swept, all);
}
