#include "host/daemon/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/base.h"
#include "proto/base/log.h"

#define READY "READY=1"

/* Its address; the length, or 0 when that is none. */
static socklen_t address_of(const char *path, struct sockaddr_un *ret)
{
    size_t length = path ? strlen(path) : 0;

    if (length < 2 || length >= sizeof(ret->sun_path) || (*path != '/' && *path != '@'))
        return 0;
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, path, length);
    if (*path == '@')
        ret->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

void notify_ready(void)
{
    struct sockaddr_un address;
    socklen_t length = address_of(getenv("NOTIFY_SOCKET"), &address);
    int fd _cleanup_(closep) = -1;

    if (length == 0)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sendto(fd, READY, strlen(READY), MSG_NOSIGNAL, (struct sockaddr *)&address, length) < 0)
        log_warn("cannot notify the service manager", "error=%s", strerror(errno));
    unsetenv("NOTIFY_SOCKET"); /* programs started from here on are no service of its */
}
