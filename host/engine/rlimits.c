#include "host/engine/rlimits.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "host/engine/check.h"

static const struct {
    const char *name;
    int resource;
} limits[] = {
    {"RLIMIT_CORE", RLIMIT_CORE},
    {"RLIMIT_NOFILE", RLIMIT_NOFILE},
    {"RLIMIT_FSIZE", RLIMIT_FSIZE},
    {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
    {"RLIMIT_STACK", RLIMIT_STACK},
    {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
    {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
};

/* The highest hard limit up to `wanted` that a child of this process may get. Whether it may be raised shows
 * by raising that of this process. */
static rlim_t attainable(int resource, rlim_t wanted)
{
    struct rlimit own;

    if (getrlimit(resource, &own) < 0 || own.rlim_max >= wanted)
        return wanted;
    return setrlimit(resource, &(struct rlimit){own.rlim_cur, wanted}) == 0 ? wanted : own.rlim_max;
}

static int fit(json_t *limit, int resource)
{
    rlim_t soft = (rlim_t)json_integer_value(json_object_get(limit, "soft"));
    rlim_t hard = attainable(resource, (rlim_t)json_integer_value(json_object_get(limit, "hard")));

    if (json_object_set_new(limit, "hard", json_integer((json_int_t)hard)) < 0 ||
        json_object_set_new(limit, "soft", json_integer((json_int_t)MIN(soft, hard))) < 0)
        return -ENOMEM;
    return 0;
}

int rlimits_fit(json_t *rlimits)
{
    json_t *limit;
    size_t i;

    json_array_foreach(rlimits, i, limit)
    {
        const char *name = json_string_value(json_object_get(limit, "type"));

        for (size_t k = 0; name && k < ARRAY_SIZE(limits); k++)
            if (strcmp(name, limits[k].name) == 0 && fit(limit, limits[k].resource) < 0)
                return -ENOMEM;
    }
    return 0;
}

int rlimits_check(Problem *problem)
{
    if (attainable(RLIMIT_CORE, 1) == 1 || !check_dumps_are_piped())
        return 0;
    return problem_set(
        problem, ERR_ENGINE_ERROR,
        "crashes are piped to a program on the host (kernel.core_pattern), and limpetd may not set the "
        "limit that prevents this for sandboxes; start it with a hard limit for core files of at "
        "least 1 (ulimit -Hc), or with CAP_SYS_RESOURCE");
}
