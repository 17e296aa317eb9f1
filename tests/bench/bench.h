/* Shared by the benchmark programs. Each sets itself up, prints "ready", and then for every line "N GAP" on
 * its standard input does N round trips, GAP nanoseconds apart (absent: none), and prints their times in
 * nanoseconds, one block a line. scripts/bench runs them in turn, so that floor and subject see the same
 * machine. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/clock.h"

/* Does one round trip: 0, or not 0 when it failed. *begin is now; a round that has something to prepare moves
 * it to the moment from which its time counts. */
typedef int (*bench_round)(void *context, uint64_t *begin);

static inline void bench_pause(uint64_t nsec)
{
    struct timespec pause = clock_timespec(nsec);

    if (nsec > 0)
        nanosleep(&pause, NULL);
}

static inline int bench_serve(bench_round round, void *context)
{
    char line[64];

    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        char *rest;
        long n = strtol(line, &rest, 10);
        uint64_t gap = strtoull(rest, NULL, 10);

        for (long i = 0; i < n; i++) {
            uint64_t begin;

            bench_pause(gap);
            begin = clock_now();
            if (round(context, &begin))
                return 1;
            printf("%llu ", (unsigned long long)(clock_now() - begin));
        }
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
