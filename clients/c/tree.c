#include "clients/c/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAMED 10u /* in a message */

void tree_progress(TreeProgress *progress, uint64_t size)
{
    progress->done += size;
    if (progress->tell)
        progress->tell(progress->context, progress->done, progress->whole);
}

static bool is_name(const char *at, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(at, name, n) == 0;
}

bool tree_leads_out(const char *path, const char *target)
{
    int depth = 0; /* of the directory that the link is in, below the top */

    for (const char *at = path; (at = strchr(at, '/')); at++)
        depth++;
    if (*target == '/')
        return true;
    for (const char *at = target; *at && depth >= 0;) {
        size_t n = strcspn(at, "/");

        if (is_name(at, n, ".."))
            depth--;
        else if (n > 0 && !is_name(at, n, "."))
            depth++;
        at += n + (at[n] == '/');
    }
    return depth < 0;
}

bool tree_is_plain(const char *path)
{
    for (const char *at = path;; at++) {
        size_t n = strcspn(at, "/");

        if (n == 0 || is_name(at, n, ".") || is_name(at, n, ".."))
            return false;
        at += n;
        if (!*at)
            return true;
    }
}

int tree_refuse(TreeRefused *refused, const char *path)
{
    if (++refused->n > NAMED)
        return 0;
    if (refused->n > 1 && buf_append(&refused->names, ", ", 2) < 0)
        return -ENOMEM;
    return buf_append(&refused->names, path, strlen(path));
}

int tree_refused_end(TreeRefused *refused, const char *top, Problem *problem)
{
    size_t more = refused->n > NAMED ? refused->n - NAMED : 0;
    char others[48] = "";
    int r = 0;

    if (more > 0)
        snprintf(others, sizeof(others), " and %zu more", more);
    if (refused->n > 0)
        r = problem_set(
            problem, ERR_BAD_REQUEST,
            "'%s' has links that lead out of it, or what is neither file, directory nor link, and "
            "nothing was copied: %.*s%s",
            top, (int)MIN(refused->names.size, (size_t)2000), (const char *)buf_head(&refused->names),
            others);
    buf_deinit(&refused->names);
    return r;
}

char *tree_path(const char *top, const char *below)
{
    size_t n = strlen(top);
    char *path = NULL;

    while (n > 1 && top[n - 1] == '/')
        n--;
    return asprintf(&path, "%.*s%s%s", (int)n, top, n > 0 && top[n - 1] == '/' ? "" : "/", below) < 0 ? NULL
                                                                                                      : path;
}
