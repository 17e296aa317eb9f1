#include "host/former.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/session.h"

typedef struct FormerBranch {
    List link;
    uint64_t branch;
    char name[LIMIT_SESSION_PATH + 1];
} FormerBranch;

static void forget(FormerBranch *former)
{
    list_remove(&former->link);
    free(former);
}

void former_add(Sandbox *sandbox, uint64_t branch, const char *name)
{
    FormerBranch *former = calloc(1, sizeof(*former));
    size_t n = 0;

    if (!former)
        return;
    former->branch = branch;
    snprintf(former->name, sizeof(former->name), "%s", name);
    list_append(&sandbox->former, &former->link);
    for (const List *at = sandbox->former.next; at != &sandbox->former; at = at->next)
        n++;
    if (n > LIMIT_CHECKPOINTS)
        forget(list_entry(list_first(&sandbox->former), FormerBranch, link));
}

void former_deinit(Sandbox *sandbox)
{
    FormerBranch *former;

    list_foreach (former, &sandbox->former, FormerBranch, link)
        forget(former);
}

const char *sandbox_branch_name(const Sandbox *sandbox, uint64_t branch, char buffer[static BRANCH_NAME_SIZE])
{
    const Session *session = sandbox_find_branch(sandbox, branch);
    const FormerBranch *former;

    if (session)
        return session->name;
    list_foreach (former, &sandbox->former, FormerBranch, link)
        if (former->branch == branch)
            return former->name;
    snprintf(buffer, BRANCH_NAME_SIZE, "%s/%" PRIu64, sandbox->trunk->name, branch);
    return buffer;
}
