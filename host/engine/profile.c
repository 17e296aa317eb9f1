#include "host/engine/profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

json_t *profile_load(const char *text)
{
    return json_loads(text, JSON_REJECT_DUPLICATES, NULL);
}

uint64_t profile_shm_size(uint64_t memory)
{
    return memory / 2;
}

static int replace(json_t *limit, const char *key, uint64_t value)
{
    return json_object_get(limit, key) ? json_object_set_new(limit, key, json_integer((json_int_t)value)) : 0;
}

int profile_set_limit(json_t *limits, const char *key, const char *name, uint64_t value)
{
    static const char *const keys[] = {"soft", "hard", "Soft", "Hard"};
    json_t *limit;
    size_t i;

    json_array_foreach(limits, i, limit)
    {
        const char *text = json_string_value(json_object_get(limit, key));

        for (size_t k = 0; value > 0 && text && strcmp(text, name) == 0 && k < ARRAY_SIZE(keys); k++)
            if (replace(limit, keys[k], value) < 0)
                return -ENOMEM;
    }
    return 0;
}

unsigned profile_threads(double cpus)
{
    unsigned whole = cpus >= 1 ? (unsigned)MIN(cpus, 1024.0) : 1;

    return whole < cpus && whole < 1024 ? whole + 1 : whole;
}

void profile_threads_text(char *ret, size_t size, double cpus)
{
    snprintf(ret, size, "OMP_NUM_THREADS=%u", profile_threads(cpus));
}

int profile_add_env(json_t *env, double cpus)
{
    char threads[64];

    profile_threads_text(threads, sizeof(threads), cpus);
    return json_array_append_new(env, json_string(threads)) < 0 ? -ENOMEM : 0;
}

const char *profile_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
    return "";
#endif
}
