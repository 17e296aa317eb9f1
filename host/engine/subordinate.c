#include "host/engine/subordinate.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/program.h"
#include "proto/limits.h"

#define FILE_LIMIT (4u << 20)

/* "OWNER:FIRST:COUNT" */
static bool parse(const char *line, char owner[static 256], IdRange *ret)
{
    return sscanf(line, "%255[^:\n]:%" SCNu32 ":%" SCNu32, owner, &ret->first, &ret->count) == 3 &&
           ret->count <= UINT32_MAX - ret->first;
}

int subordinate_find(const char *text, const char *name, uint32_t id, IdRange *ret, uint32_t *ret_free)
{
    char owner[256], number[16];
    int r = -ENOENT;

    snprintf(number, sizeof(number), "%" PRIu32, id);
    *ret_free = SUBORDINATE_FIRST;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        IdRange range;

        if (!parse(line, owner, &range))
            continue;
        *ret_free = MAX(*ret_free, range.first + range.count);
        if (r < 0 && (strcmp(owner, name) == 0 || strcmp(owner, number) == 0)) {
            *ret = range;
            r = 0;
        }
    }
    return r;
}

static int find_in(const char *file, const char *name, IdRange *ret, uint32_t *free_from)
{
    char *text _cleanup_(freep) = NULL;
    uint32_t from = SUBORDINATE_FIRST;
    int r = capture_file(file, FILE_LIMIT, &text);

    if (r == 0)
        r = subordinate_find(text, name, geteuid(), ret, &from);
    *free_from = MAX(*free_from, from);
    return r;
}

/* The ids inside are from 1 on. */
static bool suffices(const IdRange *range)
{
    return range->count >= MAX(MAX(GUEST_UID, SUPERVISOR_UID), BROWSER_UID);
}

int subordinate_own(IdRange *ret_users, IdRange *ret_groups, Problem *problem)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *name = user ? user->pw_name : "";
    uint32_t from = SUBORDINATE_FIRST;
    bool found = find_in("/etc/subuid", name, ret_users, &from) == 0;

    found &= find_in("/etc/subgid", name, ret_groups, &from) == 0;
    if (found && suffices(ret_users) && suffices(ret_groups))
        return 0;
    return problem_set(
        problem, ERR_ENGINE_ERROR,
        "%s has %s subordinate ids in /etc/subuid and /etc/subgid, which containers without root "
        "need; an administrator adds them with: usermod --add-subuids %" PRIu32 "-%" PRIu32
        " --add-subgids %" PRIu32 "-%" PRIu32 " %s",
        *name ? name : "this user", found ? "too few" : "no", from, from + SUBORDINATE_COUNT - 1, from,
        from + SUBORDINATE_COUNT - 1, *name ? name : "USER");
}
