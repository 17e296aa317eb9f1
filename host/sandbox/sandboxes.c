#include "host/sandbox/sandboxes.h"

#include "proto/base/clock.h"

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

size_t sandboxes_not_enforced(const Sandboxes *all, const char *ret[static SANDBOX_LIMITS])
{
    static const struct {
        ContainerLimit limit;
        const char *name;
    } limits[] = {{LIMIT_ON_MEMORY, "memory"}, {LIMIT_ON_CPUS, "cpus"}, {LIMIT_ON_PIDS, "pids"}};
    const EngineOps *ops = all->engine->ops;
    unsigned missing = ops->not_enforced ? ops->not_enforced(all->engine) : 0;
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        if (missing & limits[i].limit)
            ret[n++] = limits[i].name;
    if (!all->has_disks) {
        ret[n++] = "disk";
        ret[n++] = "files";
    }
    return n;
}
