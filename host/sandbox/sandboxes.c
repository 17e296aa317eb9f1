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
