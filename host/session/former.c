#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/session/internal.h"

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

void former_add(Session *trunk, uint64_t branch, const char *name)
{
    FormerBranch *former = calloc(1, sizeof(*former));
    size_t n = 0;

    if (!former)
        return;
    former->branch = branch;
    snprintf(former->name, sizeof(former->name), "%s", name);
    list_append(&trunk->former, &former->link);
    for (const List *at = trunk->former.next; at != &trunk->former; at = at->next)
        n++;
    if (n > LIMIT_CHECKPOINTS)
        forget(list_entry(list_first(&trunk->former), FormerBranch, link));
}

void former_deinit(Session *trunk)
{
    FormerBranch *former;

    list_foreach (former, &trunk->former, FormerBranch, link)
        forget(former);
}

const char *session_branch_name(const Session *trunk, uint64_t branch, char buffer[static BRANCH_NAME_SIZE])
{
    const Session *session = session_find_branch(trunk, branch);
    const FormerBranch *former;

    if (session)
        return session->name;
    list_foreach (former, &trunk->former, FormerBranch, link)
        if (former->branch == branch)
            return former->name;
    snprintf(buffer, BRANCH_NAME_SIZE, "%s/%" PRIu64, trunk->name, branch);
    return buffer;
}
