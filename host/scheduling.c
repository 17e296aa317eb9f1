#include "host/scheduling.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/base/log.h"

#define LOOP_NICE (-10)

static int last_processor(const cpu_set_t *allowed)
{
    int last = -1;

    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, allowed))
            last = i;
    return last;
}

static int choose(const char *core, const cpu_set_t *allowed, Problem *problem)
{
    char *end;
    long number;

    if (strcmp(core, "auto") == 0)
        return last_processor(allowed);
    number = strtol(core, &end, 10);
    if (end == core || *end || number < 0 || number >= CPU_SETSIZE || !CPU_ISSET((int)number, allowed))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "core cannot be '%s'; it is auto, off, or the number of a processor this process may use", core);
    return (int)number;
}

int scheduling_claim(const char *core, Problem *problem)
{
    cpu_set_t allowed, one;
    int processor;

    if (strcmp(core, "off") == 0 || sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        return 0;
    processor = choose(core, &allowed, problem);
    if (processor < 0)
        return processor;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        log_warn("not bound to a processor", "core=%d", processor);
    /* Only root may; everybody else runs at the usual priority. */
    setpriority(PRIO_PROCESS, 0, LOOP_NICE);
    return 0;
}
