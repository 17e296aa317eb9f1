#include "host/engine/profile.h"

#include <errno.h>

#define TMPFS_MAXIMUM (UINT64_C(64) << 20)

json_t *profile_load(const char *text)
{
    return json_loads(text, JSON_REJECT_DUPLICATES, NULL);
}

uint64_t profile_tmpfs_size(uint64_t memory)
{
    return MIN(memory / 8, TMPFS_MAXIMUM);
}

unsigned profile_threads(double cpus)
{
    unsigned whole = cpus >= 1 ? (unsigned)MIN(cpus, 1024.0) : 1;

    return whole < cpus && whole < 1024 ? whole + 1 : whole;
}

int profile_add_env(json_t *env, double cpus)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (json_array_append_new(env, json_sprintf("%s=%u", names[i], profile_threads(cpus))) < 0)
            return -ENOMEM;
    return 0;
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
