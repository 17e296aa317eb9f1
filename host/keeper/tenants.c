/* The sessions whose files are here, by the ids of their directories. */
#include <string.h>

#include "host/keeper/internal.h"

Tenant *tenant_find(Keeper *keeper, const char *id)
{
    Tenant *tenant;

    HASH_FIND(by_id, keeper->tenants, id, strlen(id), tenant);
    return tenant;
}

Tenant *tenant_add(Keeper *keeper, SessionDir *directory)
{
    Tenant *tenant = tenant_find(keeper, directory->id) ? NULL : calloc(1, sizeof(*tenant));

    if (!tenant)
        return NULL;
    tenant->keeper = keeper;
    list_init(&tenant->copies);
    HASH_ADD_KEYPTR(by_id, keeper->tenants, directory->id, strlen(directory->id), tenant);
    if (tenant_find(keeper, directory->id) != tenant) {
        free(tenant);
        return NULL;
    }
    tenant->directory = *directory;
    *directory = SESSIONDIR_NULL;
    return tenant;
}

static void free_when_unused(Tenant *tenant)
{
    if (tenant->gone && tenant->jobs == 0)
        free(tenant);
}

void tenant_remove(Tenant *tenant, bool discard)
{
    HASH_DELETE(by_id, tenant->keeper->tenants, tenant);
    for (ArtifactsPlace place = 0; place < PLACES; place++)
        tenant->artifacts[place] = artifacts_free(tenant->artifacts[place]);
    if (discard)
        sessiondir_remove(&tenant->directory, tenant->keeper->worker);
    else
        sessiondir_deinit(&tenant->directory);
    tenant->gone = true;
    free_when_unused(tenant);
}

bool tenants_use(void *userdata, const char *id)
{
    const Keeper *keeper = userdata;

    for (const Tenant *tenant = keeper->tenants; tenant; tenant = tenant->by_id.next)
        if (sessiondir_uses(&tenant->directory, id))
            return true;
    return false;
}

void tenant_hold(KeeperJob *job)
{
    job->tenant->jobs++;
}

void tenant_release(KeeperJob *job)
{
    Tenant *tenant = take(job->tenant);

    if (tenant) {
        tenant->jobs--;
        free_when_unused(tenant);
    }
}
