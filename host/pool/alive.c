#include "host/pool/alive.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The file of proc(5); a name in it has its line ends escaped. */
static bool read_status(int pid, char *buffer, size_t size)
{
    char path[32];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    int fd _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, buffer, size - 1);
    buffer[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static const char *find(const char *status, const char *field)
{
    const char *at = strstr(status, field);

    return at ? at + strlen(field) : "";
}

bool process_is_alive(int pid)
{
    char status[8192], state;
    uint64_t waiting;

    return read_status(pid, status, sizeof(status)) && sscanf(find(status, "\nState:"), " %c", &state) == 1 &&
           state != 'Z' && state != 'X' && sscanf(find(status, "\nShdPnd:"), "%" SCNx64, &waiting) == 1 &&
           !(waiting & UINT64_C(1) << (SIGKILL - 1));
}
