#include "host/engine/procfind.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/engine/capture.h"

#define LINE_SIZE (4 * PATH_MAX)

/* The command line of a process of this user, every argument ended by '\0'; its size, 0 when there is none.
 */
static size_t read_arguments(pid_t pid, char line[LINE_SIZE + 1])
{
    char path[64];
    struct stat st;
    int fd _cleanup_(closep) = -1;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) < 0 || st.st_uid != geteuid())
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, line, LINE_SIZE);
    line[MAX(n, 0)] = '\0';
    return (size_t)MAX(n, 0);
}

/* What stands behind `option`; NULL. The program's own name is no option. */
static const char *value_of(const char *line, size_t size, const char *option)
{
    const char *end = line + size, *at = line + strlen(line) + 1;

    for (; at < end; at += strlen(at) + 1)
        if (strcmp(at, option) == 0)
            return at + strlen(at) + 1 < end ? at + strlen(at) + 1 : NULL;
    return NULL;
}

static pid_t parent_of(pid_t pid)
{
    char *text _cleanup_(freep) = NULL;
    const char *behind_name;
    char path[64];
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (capture_file(path, 1024, &text) < 0 || !(behind_name = strrchr(text, ')')))
        return 0;
    return sscanf(behind_name, ") %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

static bool has_value(pid_t pid, const char *option, const char *value)
{
    char line[LINE_SIZE + 1];
    size_t size = read_arguments(pid, line);
    const char *own = value_of(line, size, option);

    return own && strcmp(own, value) == 0;
}

bool process_is(pid_t pid, const char *option, const char *value)
{
    pid_t parent = parent_of(pid);

    return has_value(pid, option, value) && !(parent > 0 && has_value(parent, option, value));
}

void process_find(const char *option, const char *prefix,
                  void (*found)(void *userdata, pid_t pid, const char *value), void *userdata)
{
    DIR *processes = opendir("/proc");
    struct dirent *entry;

    while (processes && (entry = readdir(processes))) {
        char line[LINE_SIZE + 1];
        pid_t pid = (pid_t)atol(entry->d_name);
        size_t size = pid > 0 ? read_arguments(pid, line) : 0;
        const char *value = value_of(line, size, option);

        if (value && strncmp(value, prefix, strlen(prefix)) == 0 && process_is(pid, option, value))
            found(userdata, pid, value);
    }
    if (processes)
        closedir(processes);
}
