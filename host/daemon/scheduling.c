#include "host/daemon/scheduling.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/base/log.h"

#define LOOP_NICE (-10)

/* -1: any. -EPROTO with the problem set. */
static int parse(const char *core, int *ret, Problem *problem)
{
    cpu_set_t allowed;
    char *end;
    long number;

    *ret = -1;
    if (strcmp(core, "auto") == 0 || sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        return 0;
    number = strtol(core, &end, 10);
    if (end == core || *end || number < 0 || number >= CPU_SETSIZE || !CPU_ISSET((int)number, &allowed))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "core cannot be '%s'; it is auto, off, or the number of a processor this process may use", core);
    *ret = (int)number;
    return 0;
}

static void bind_to(int processor)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        log_warn("not pinned to a processor", "core=%d", processor);
}

int scheduling_claim(const char *core, Problem *problem)
{
    int processor, r;

    if (strcmp(core, "off") == 0)
        return 0;
    r = parse(core, &processor, problem);
    if (r < 0)
        return r;
    if (processor >= 0)
        bind_to(processor);
    /* Only root may; everybody else runs at the usual priority. */
    setpriority(PRIO_PROCESS, 0, LOOP_NICE);
    return 0;
}
