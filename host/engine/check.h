/* Saying what a host can do, one finding at a time, and the findings that every engine shares. */
#pragma once

#include "host/engine/cgroup.h"
#include "host/engine/engine.h"

typedef struct Check {
    void (*report)(void *userdata, const EngineFinding *finding);
    void *userdata;
} Check;

/* `advice` may be NULL. */
void check_say(const Check *check, int level, const char *topic, const char *advice, const char *format, ...)
    _printf_(5, 6);

/* Reports whether sessions can step aside for others (EngineOps.set_idle). */
void check_scheduling(const Check *check);

/* Reports seccomp and core dumps. */
void check_filters(const Check *check);

/* Cgroup controllers, scheduling, and those two. */
void check_kernel(const Check *check);

/* Returns whether the kernel starts a program of the host when a process crashes. */
bool check_dumps_are_piped(void);

/* Returns whether the kernel can filter system calls. */
bool check_has_seccomp(void);
