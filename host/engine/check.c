#include "host/engine/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/program.h"

#define SMALL_FILE 4096u

void check_say(const Check *check, int level, const char *topic, const char *advice, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    check->report(check->userdata,
                  &(EngineFinding){.level = level, .topic = topic, .text = text, .advice = advice});
}

bool check_has_seccomp(void)
{
    char *actions _cleanup_(freep) = NULL;

    return capture_file("/proc/sys/kernel/seccomp/actions_avail", SMALL_FILE, &actions) == 0 &&
           strstr(actions, "errno") != NULL;
}

static void check_cgroups(const Check *check)
{
    CgroupSupport support = {0};

    cgroup_support(&support);
    if (support.version == 0) {
        check_say(check, FINDING_FAIL, "cgroups", "mount control groups below /sys/fs/cgroup",
                  "no control groups are mounted, so nothing can be limited");
        return;
    }
    check_say(check, FINDING_OK, "cgroups", NULL, "version %u", support.version);
    if (!support.memory)
        check_say(check, FINDING_FAIL, "cgroups", "boot with cgroup_enable=memory",
                  "the memory controller is missing, so memory cannot be limited");
    if (!support.pids || !support.cpu)
        check_say(check, FINDING_FAIL, "cgroups", "use a kernel with both controllers",
                  "the %s controller is missing", support.pids ? "cpu" : "pids");
    if (!support.swap)
        check_say(check, FINDING_WARN, "cgroups", "boot with swapaccount=1, or turn swap off",
                  "swap is not counted: a container may use swap on top of its memory");
}

bool check_dumps_are_piped(void)
{
    char *pattern _cleanup_(freep) = NULL;

    return capture_file("/proc/sys/kernel/core_pattern", SMALL_FILE, &pattern) == 0 && *pattern == '|';
}

static void check_core_dumps(const Check *check)
{
    if (check_dumps_are_piped())
        check_say(
            check, FINDING_WARN, "core dumps", "set kernel.core_pattern to a file name",
            "crashes are piped to a program on the host; a limit and the system call filter keep sandboxes "
            "from using it");
    else
        check_say(check, FINDING_OK, "core dumps", NULL, "crashes start no program on the host");
}

void check_scheduling(const Check *check)
{
    CgroupSupport support = {0};

    cgroup_support(&support);
    if (support.version == 0)
        return;
    if (!support.idle)
        check_say(check, FINDING_WARN, "scheduling", "use Linux 5.15 or newer",
                  "long calls cannot step aside for the calls of other sessions");
    else if (geteuid() != 0)
        check_say(check, FINDING_OK, "scheduling", NULL,
                  "long calls do not step aside for the calls of other sessions; this needs root");
    else
        check_say(check, FINDING_OK, "scheduling", NULL,
                  "long calls step aside for the calls of other sessions");
}

void check_kernel(const Check *check)
{
    check_cgroups(check);
    check_scheduling(check);
    if (check_has_seccomp())
        check_say(check, FINDING_OK, "seccomp", NULL, "the kernel can filter system calls");
    else
        check_say(check, FINDING_FAIL, "seccomp", "use a kernel with CONFIG_SECCOMP_FILTER",
                  "the kernel cannot filter system calls");
    check_core_dumps(check);
}
