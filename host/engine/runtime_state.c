/* The state of a container, as the runtime has written it down. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/runtime.h"
#include "proto/base/program.h"

#define STAT_LIMIT  4096u
#define START_FIELD 22 /* of /proc/PID/stat */

int runtime_read_pid(const char *path, pid_t *ret)
{
    char *text _cleanup_(freep) = NULL;
    int r = capture_file(path, 32, &text);
    long pid = r == 0 ? strtol(text, NULL, 10) : 0;

    if (pid <= 1 || pid > INT32_MAX)
        return r < 0 ? r : -EBADMSG;
    *ret = (pid_t)pid;
    return 0;
}

/* Ticks since the machine started, -1: no such process. */
static json_int_t start_of(pid_t pid)
{
    char *text _cleanup_(freep) = NULL, path[64];
    const char *at;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (capture_file(path, STAT_LIMIT, &text) < 0 || !(at = strrchr(text, ')')))
        return -1;
    for (unsigned field = 2; field < START_FIELD && at; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at + 1, NULL, 10) : -1;
}

bool runtime_has_started(const Runtime *runtime, const char *name, pid_t pid)
{
    bool crun = runtime->kind == RUNTIME_CRUN;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s/%s", runtime->root, name, crun ? "status" : "state.json");
    json_t *state _cleanup_(json_decrefp) = json_load_file(path, 0, NULL);
    const json_t *its = json_object_get(state, crun ? "pid" : "init_process_pid");
    const json_t *start = json_object_get(state, crun ? "process-start-time" : "init_process_start");

    return json_integer_value(its) == pid && json_is_integer(start) &&
           json_integer_value(start) == start_of(pid);
}
