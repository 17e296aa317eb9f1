#include "clients/c/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Course of a link, followed part by part. `at` is a path below the top, "" the top itself. */
typedef struct Course {
    char *at;
    bool named; /* the last part of `at` is not known to be a directory */
    TreeIsDirectory *is_directory;
    const void *context;
} Course;

static bool goes_back(Course *course)
{
    char *slash = strrchr(course->at, '/');

    if (!*course->at || (course->named && !course->is_directory(course->context, course->at)))
        return false;
    *(slash ? slash : course->at) = '\0';
    course->named = false;
    return true;
}

static void goes_on(Course *course, const char *name, size_t n)
{
    size_t length = strlen(course->at);

    if (length > 0)
        course->at[length++] = '/';
    memcpy(course->at + length, name, n);
    course->at[length + n] = '\0';
    course->named = true;
}

bool tree_leads_out(const char *path, const char *target, TreeIsDirectory *is_directory, const void *context)
{
    _cleanup_(freep) char *at = malloc(strlen(path) + strlen(target) + 2);
    const char *slash = strrchr(path, '/');
    Course course = {.at = at, .is_directory = is_directory, .context = context};
    bool out = !at || *target == '/';

    if (!out)
        snprintf(at, strlen(path) + 1, "%.*s", (int)(slash ? slash - path : 0), path);
    while (!out && *target) {
        size_t n = strcspn(target, "/");

        if (is_name(target, n, ".."))
            out = !goes_back(&course);
        else if (n > 0 && !is_name(target, n, "."))
            goes_on(&course, target, n);
        target += n + (target[n] == '/');
    }
    return out;
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
