#include "guest/supervisor/environment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const base[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "LANG=C.UTF-8",
    "MPLBACKEND=Agg",
    "MPLCONFIGDIR=/tmp/mpl",
    "OPENBLAS_NUM_THREADS=2",
    "OMP_NUM_THREADS=2",
    "PYTHONDONTWRITEBYTECODE=1",
};

void environment_deinit(Environment *environment)
{
    for (size_t i = 0; i < environment->n; i++)
        free(environment->entries[i]);
    free(environment->entries);
    *environment = (Environment){0};
}

/* Takes ownership of `entry`; one of the same name gives way. */
static int set_entry(Environment *environment, char *entry)
{
    if (!entry)
        return -ENOMEM;

    size_t name = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < environment->n; i++) {
        if (strncmp(environment->entries[i], entry, name) == 0) {
            free(environment->entries[i]);
            environment->entries[i] = entry;
            return 0;
        }
    }
    environment->entries[environment->n++] = entry;
    return 0;
}

static char *entry_format(const char *name, size_t name_size, const char *value, size_t value_size)
{
    char *entry = malloc(name_size + value_size + 2);

    if (!entry)
        return NULL;
    memcpy(entry, name, name_size);
    entry[name_size] = '=';
    memcpy(entry + name_size + 1, value, value_size);
    entry[name_size + 1 + value_size] = '\0';
    return entry;
}

static int set_pair(Environment *environment, const msgpack_object_kv *pair, Problem *problem)
{
    const msgpack_object_str *name = &pair->key.via.str, *value = &pair->val.via.str;

    if (pair->key.type != MSGPACK_OBJECT_STR || pair->val.type != MSGPACK_OBJECT_STR)
        return problem_set(problem, ERR_BAD_REQUEST, "env maps text to text");
    if (name->size == 0 || memchr(name->ptr, '=', name->size) || memchr(name->ptr, '\0', name->size) ||
        memchr(value->ptr, '\0', value->size))
        return problem_set(problem, ERR_BAD_REQUEST, "env has an entry that no environment can hold");
    return set_entry(environment, entry_format(name->ptr, name->size, value->ptr, value->size));
}

static int fill(Environment *environment, const char *home, const msgpack_object_map *set, Problem *problem)
{
    int r = set_entry(environment, entry_format("HOME", 4, home, strlen(home)));

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(base); i++)
        r = set_entry(environment, strdup(base[i]));
    for (uint32_t i = 0; r == 0 && set && i < set->size; i++)
        r = set_pair(environment, &set->ptr[i], problem);
    return r;
}

int environment_init(Environment *ret, const char *home, const msgpack_object_map *set, Problem *problem)
{
    _cleanup_(environment_deinit) Environment environment = {0};

    if (set && set->size > LIMIT_ENV)
        return problem_set(problem, ERR_TOO_LARGE, "env has more than %u entries", LIMIT_ENV);
    environment.entries = calloc(1 + ARRAY_SIZE(base) + (set ? set->size : 0) + 1, sizeof(char *));
    if (!environment.entries)
        return -ENOMEM;

    int r = fill(&environment, home, set, problem);
    if (r < 0)
        return r;
    *ret = environment;
    environment = (Environment){0};
    return 0;
}
