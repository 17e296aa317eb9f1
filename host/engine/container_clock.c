#include "host/engine/container_clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/clock.h"
#include "proto/base/program.h"

/* 2026-01-01: Python's floating-point seconds since then have nanoseconds. */
#define DATE INT64_C(1767225600)

#define PROBE_SECONDS 10.0
#define PROBE_LIMIT   4096u

/* Seconds by which this process's clock is ahead of the machine's: offsets count from that. */
static int read_own(int64_t *ret)
{
    char *text _cleanup_(freep) = NULL;
    int r = capture_file("/proc/self/timens_offsets", PROBE_LIMIT, &text);
    const char *at = r == 0 ? strstr(text, "monotonic") : NULL;

    if (r < 0)
        return r;
    return at && sscanf(at, "monotonic %" SCNd64, ret) == 1 ? 0 : -EBADMSG;
}

/* The same whenever it is asked for, until the date of the machine is set. */
static int64_t find_offset(int64_t own)
{
    int64_t ahead = (int64_t)(clock_unix() * 1e6) - (int64_t)(clock_now() / NSEC_PER_USEC);

    return ahead / 1000000 + own - DATE;
}

/* The runtime, which is of many threads, has to be in the namespace itself: Linux 6.1. */
static int probe(const ContainerClock *clock, const Runtime *runtime)
{
    const char *const argv[] = {clock->program, clock->with[1], clock->offset,
                                runtime->path,  "--version",    NULL};
    Buf said = {.limit = PROBE_LIMIT};
    int r = capture_program(argv, PROBE_SECONDS, &said);

    buf_deinit(&said);
    return r <= 0 ? r : -EPERM;
}

int container_clock_open(ContainerClock *ret, const Runtime *runtime)
{
    int64_t own = 0;
    int r = runtime->kind == RUNTIME_RUNSC ? -ENOTSUP : read_own(&own);

    *ret = (ContainerClock){0};
    if (r == 0)
        r = spawn_find("unshare", &ret->program);
    if (r == 0) {
        snprintf(ret->offset, sizeof(ret->offset), "--monotonic=%" PRId64, find_offset(own));
        ret->with[0] = ret->program;
        ret->with[1] = "--time";
        ret->with[2] = ret->offset;
        r = probe(ret, runtime);
    }
    if (r < 0)
        container_clock_close(ret);
    return r;
}

void container_clock_close(ContainerClock *clock)
{
    free(clock->program);
    *clock = (ContainerClock){0};
}
