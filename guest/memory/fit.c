/* Without the C library, as the loader is. */
#include "guest/memory/memory.h"

/* FNV-1a, of 64 bits: whoever could make two equal could also write the file. */
#define BASIS 0xcbf29ce484222325u
#define PRIME 0x100000001b3u

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * PRIME;
    return hash;
}

#ifdef __x86_64__
#include <cpuid.h>

/* The mask is for the second register, in which some leaves differ from one processor of a machine to the
 * next. */
static const struct {
    unsigned leaf, part, counts;
} leaves[] = {{0, 0, ~0u}, {1, 0, 0},      {7, 0, ~0u},    {7, 1, ~0u},         {0xd, 0, ~0u},
              {0xd, 1, 0}, {0x14, 0, ~0u}, {0x19, 0, ~0u}, {0x80000001, 0, ~0u}};

static uint64_t hash_processor(void)
{
    uint64_t hash = BASIS;

    for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
        unsigned r[4] = {0};

        __get_cpuid_count(leaves[i].leaf, leaves[i].part, &r[0], &r[1], &r[2], &r[3]);
        r[1] &= leaves[i].counts;
        hash = mix(hash, r, sizeof(r));
    }
    return hash;
}
#else
static uint64_t hash_processor(void)
{
    return 0;
}
#endif

uint64_t memory_hash(const void *bytes, size_t n)
{
    return mix(BASIS, bytes, n);
}

MemoryFit memory_fit(const void *vdso, size_t size)
{
    return (MemoryFit){.kernel = memory_hash(vdso, size), .processor = hash_processor()};
}
