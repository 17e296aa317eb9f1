#include "guest/interpreter/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* A private duplicate, and which file it is. */
typedef struct Own {
    int fd;
    dev_t device;
    ino_t inode;
} Own;

static struct {
    Own standard[3];
    int channel;
} own;

/* As high as a usual limit allows, since daemon code closes everything below 256; otherwise somewhat high. */
static int duplicate_high(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 1000);

    if (high < 0 && errno == EINVAL)
        high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    return high < 0 ? -errno : high;
}

static void identify(Own *file)
{
    struct stat st;

    if (fstat(file->fd, &st) == 0) {
        file->device = st.st_dev;
        file->inode = st.st_ino;
    }
}

int descriptors_init(void)
{
    for (int fd = 0; fd < 3; fd++) {
        own.standard[fd].fd = duplicate_high(fd);
        if (own.standard[fd].fd < 0)
            return own.standard[fd].fd;
        identify(&own.standard[fd]);
    }
    own.channel = duplicate_high(CHANNEL_FD);
    if (own.channel < 0)
        return own.channel;
    close(CHANNEL_FD);
    return 0;
}

int descriptors_stream(int fd)
{
    return own.standard[fd].fd;
}

int descriptors_channel(void)
{
    return own.channel;
}

static bool is_own(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_dev == own.standard[fd].device && st.st_ino == own.standard[fd].inode;
}

void descriptors_restore(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (!is_own(fd))
            dup2(own.standard[fd].fd, fd);
    }
}

void descriptors_replace(const int fds[CHANNEL_FDS])
{
    for (int i = 0; i < CHANNEL_FDS; i++) {
        Own *file = &own.standard[i + 1];

        if (fds[i] < 0)
            continue;
        dup3(fds[i], file->fd, O_CLOEXEC);
        dup2(fds[i], i + 1);
        close(fds[i]);
        identify(file);
    }
}
