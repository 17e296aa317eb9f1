#include "host/sandbox/sweep.h"

#include <dirent.h>
#include <string.h>

#include "host/files/tree.h"
#include "host/sandbox/sandbox.h"
#include "proto/base/log.h"

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
    DIR *directory = opendir(all->paths->links);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && !has_link(all, entry->d_name))
            remove_tree(dirfd(directory), entry->d_name, NULL);
    if (directory)
        closedir(directory);
    rmdir(all->paths->links);
}

static void on_swept(void *userdata, unsigned removed)
{
    Sandboxes *all = userdata;
    Problem problem = PROBLEM_NULL;

    if (keeper_call(all->keeper, JOB_SWEEP, &(JobNothing){0}, NULL, NULL, &problem) < 0)
        log_warn("files of an earlier controller stay", "reason=%s", problem.text);
    if (removed > 0)
        log_info("removed containers of an earlier controller", "count=%u", removed);
}

void sweep_sandboxes(Sandboxes *all)
{
    all->engine->ops->sweep(all->engine, on_swept, all);
}
