/* What the benchmark programs share. Each sets itself up, prints "ready", and then for every line "N" on its
 * standard input does N round trips and prints their times in nanoseconds, one block a line. scripts/bench
 * runs them in turn, so that floor and subject see the same machine. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/clock.h"

/* 0, or not 0 when the round trip failed. */
typedef int (*bench_round)(void *context);

static inline int bench_serve(bench_round round, void *context)
{
    char line[32];

    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        for (long i = 0, n = atol(line); i < n; i++) {
            uint64_t start = clock_now();
            if (round(context))
                return 1;
            printf("%llu ", (unsigned long long)(clock_now() - start));
        }
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
