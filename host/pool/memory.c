#include "host/pool/memory.h"

#include <stdio.h>

#include "proto/base/base.h"

uint64_t memory_available(void)
{
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file))
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    if (file)
        fclose(file);
    return found ? kib << 10 : UINT64_MAX;
}
