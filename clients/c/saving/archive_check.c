#include "clients/c/saving/archive_check.h"

#include <errno.h>
#include <search.h>
#include <string.h>

#include "clients/c/tree.h"

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_of_variables(const char *name)
{
    return strcmp(name, ARCHIVE_PICKLES) == 0 || strcmp(name, ARCHIVE_INDEX) == 0;
}

const char *archive_path(const Member *member)
{
    return is_of_variables(member->name) ? NULL : member->name + strlen(ARCHIVE_FILES);
}

static bool is_expected(const Member *member)
{
    const char *path;

    if (is_of_variables(member->name))
        return member->kind == MEMBER_FILE;
    if (!begins_with(member->name, ARCHIVE_FILES))
        return false;
    path = member->name + strlen(ARCHIVE_FILES);
    return tree_is_plain(path) && !begins_with(path, SAVING_OWN);
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* 1: one of the directories that it lies in is a link. */
static int is_behind_link(void *const *links, const char *name)
{
    _cleanup_(freep) char *above = strdup(name);

    if (!above)
        return -ENOMEM;
    for (char *slash; (slash = strrchr(above, '/'));) {
        *slash = '\0';
        if (tfind(above, links, compare))
            return 1;
    }
    return 0;
}

static int remember_link(void **links, const char *name)
{
    char *copy = strdup(name), **found;

    if (!copy)
        return -ENOMEM;
    found = tsearch(copy, links, compare);
    if (!found || *found != copy)
        free(copy);
    return found ? 0 : -ENOMEM;
}

static int check_member(const ArchiveReader *archive, void **links)
{
    const Member *member = &archive->member;
    int r = is_expected(member) ? is_behind_link(links, member->name) : 1;

    if (r > 0)
        return archive_damaged(archive, "is malformed: it has '%.300s'", member->name);
    return r == 0 && member->kind == MEMBER_SYMLINK ? remember_link(links, member->name) : r;
}

int archive_check(ArchiveReader *archive, uint64_t *ret_bytes)
{
    void *links = NULL;
    int r;

    *ret_bytes = 0;
    while ((r = archive_next(archive)) > 0) {
        r = check_member(archive, &links);
        if (r < 0)
            break;
        *ret_bytes += archive->member.kind == MEMBER_FILE ? member_stored(&archive->member) : 0;
    }
    tdestroy(links, free);
    return r;
}
