/* Time. Deadlines use the monotonic clock, which no clock step moves; records use Unix seconds. */
#pragma once

#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC  UINT64_C(1000000000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_USEC UINT64_C(1000)

static inline uint64_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

static inline double clock_seconds(struct timespec t)
{
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double clock_unix(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return clock_seconds(t);
}

static inline struct timespec clock_timespec(uint64_t nsec)
{
    return (struct timespec){.tv_sec = (time_t)(nsec / NSEC_PER_SEC), .tv_nsec = (long)(nsec % NSEC_PER_SEC)};
}

/* Seconds to nanoseconds, saturating; negative counts as 0. */
static inline uint64_t clock_from_seconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return seconds > 1e9 ? UINT64_MAX / 4 : (uint64_t)(seconds * 1e9);
}
