#include "host/sandbox/sandboxes.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/files/remove.h"
#include "host/sandbox/guest.h"
#include "host/sandbox/sandbox.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

void sandboxes_init(Sandboxes *all)
{
    list_init(&all->list);
    courtesies_init(&all->courtesies);
}

void sandboxes_deinit(Sandboxes *all)
{
    courtesies_deinit(&all->courtesies);
}

uint64_t sandboxes_next_number(Sandboxes *all)
{
    if (all->last_number == 0)
        all->last_number = (uint64_t)(clock_unix() * 1e6);
    return ++all->last_number;
}

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

void sandboxes_sweep_links(const Sandboxes *all)
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

void sandboxes_sweep(Sandboxes *all)
{
    all->engine->ops->sweep(all->engine, on_swept, all);
}

const char *sandboxes_engine(const Sandboxes *all)
{
    return all->engine->ops->name;
}

const char *sandboxes_image(const Sandboxes *all)
{
    return all->engine->ops->default_image(all->engine);
}

bool sandboxes_isolate(const Sandboxes *all)
{
    return all->engine->ops->isolates;
}
