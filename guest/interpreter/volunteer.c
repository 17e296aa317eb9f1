#include "guest/interpreter/volunteer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/base.h"

static bool set(const char *text)
{
    _cleanup_(closep) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    return fd >= 0 && write(fd, text, strlen(text)) > 0;
}

void volunteer_first(void)
{
    set("1000");
}

void volunteer_last(pid_t other)
{
    char path[64], text[16];

    if (set("0"))
        return;
    /* A container may begin higher. */
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)other);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    text[MAX(n, 0)] = '\0';
    set(text);
}
