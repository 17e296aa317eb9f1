#include "host/engine/oci_check.h"

#include <string.h>

#include "host/engine/check.h"
#include "host/engine/image.h"
#include "host/engine/profile.h"
#include "host/engine/rlimits.h"
#include "host/engine/rootless.h"
#include "host/engine/runtime.h"
#include "host/engine/userns.h"

int oci_check_host(bool *ret_swap_limit, Problem *problem)
{
    CgroupSupport support = {0};

    if (geteuid() != 0)
        return problem_set(problem, ERR_INTERNAL, "no user namespace was entered for the engine oci");
    if (*profile_architecture() == '\0')
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "there is no system call filter for the processor of this machine");
    if (!rootless_entered() &&
        (cgroup_support(&support) < 0 || !support.memory || !support.pids || !support.cpu))
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "this host cannot limit memory, processes and CPU with control groups; see limpetd "
            "--check");
    if (!check_has_seccomp())
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "the kernel cannot filter system calls (CONFIG_SECCOMP_FILTER)");
    *ret_swap_limit = !rootless_entered() && support.swap;
    return rlimits_check(problem);
}

static void check_userns(const Check *check, const EngineConfig *config, const Runtime *runtime)
{
    Problem problem = PROBLEM_NULL;

    if (geteuid() != 0)
        check_say(check, FINDING_OK, "user namespace", NULL,
                  "process 1 of a sandbox is one of your subordinate ids on the host");
    else if (strcmp(config->userns, "off") == 0)
        check_say(check, FINDING_OK, "user namespace", NULL, "turned off: sandboxes have none of their own");
    else if (userns_check(config, runtime, &problem) < 0)
        check_say(check, FINDING_WARN, "user namespace", NULL,
                  "process 1 of a sandbox is uid 0 on the host, too: %s", problem.text);
    else
        check_say(check, FINDING_OK, "user namespace", NULL, "process 1 of a sandbox is uid %u on the host",
                  SUPERVISOR_UID);
}

static void check_runtime(const Check *check, const EngineConfig *config)
{
    Problem problem = PROBLEM_NULL;
    Runtime runtime;

    if (runtime_init(&runtime, NULL, config->oci_runtime, "", &problem) < 0) {
        check_say(check, FINDING_FAIL, "runtime", "install runc or crun, or set the option oci_runtime", "%s",
                  problem.text);
        return;
    }
    if (runtime_is_dated(&runtime))
        check_say(check, FINDING_WARN, "runtime",
                  "install runc 1.2.8, 1.3.3 or newer, or a distribution package with the fixes",
                  "%s %s (%s) lacks the fixes of CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881",
                  runtime.name, runtime.version, runtime.path);
    else
        check_say(check, FINDING_OK, "runtime", NULL, "%s %s (%s)", runtime.name, runtime.version,
                  runtime.path);
    check_userns(check, config, &runtime);
    runtime_deinit(&runtime);
}

static void check_image(const Check *check, const EngineConfig *config)
{
    char *rootfs _cleanup_(freep) = NULL;
    Problem problem = PROBLEM_NULL;

    if (image_find(config, "", &rootfs, &problem) < 0)
        check_say(check, FINDING_FAIL, "image", "limpet image build", "%s", problem.text);
    else
        check_say(check, FINDING_OK, "image", NULL, "%s", rootfs);
}

/* Returns whether this is root. */
static bool check_rights(const Check *check)
{
    Problem problem = PROBLEM_NULL;

    if (geteuid() == 0)
        check_say(check, FINDING_OK, "privileges", NULL, "running as root");
    else if (rootless_check(&problem) < 0)
        check_say(check, FINDING_FAIL, "privileges", "or run limpetd as root, or use the engine docker", "%s",
                  problem.text);
    else
        check_say(check, FINDING_OK, "privileges", NULL,
                  "running as uid %u, in a user namespace of your subordinate ids", geteuid());
    return geteuid() == 0;
}

void oci_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
               void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;
    bool root = check_rights(&check);

    check_runtime(&check, config);
    if (root) {
        check_kernel(&check);
    } else {
        check_say(&check, FINDING_WARN, "limits", "run limpetd as root where code may use up the machine",
                  "memory is limited for the interpreter alone, and cpus is not limited");
        check_filters(&check);
    }
    if (rlimits_check(&problem) < 0)
        check_say(&check, FINDING_FAIL, "core dumps",
                  "start limpetd with a hard limit for core files of at least 1, or with CAP_SYS_RESOURCE",
                  "%s", problem.text);
    check_image(&check, config);
}
