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

/* A channel, two streams and the rings, and two to work with. */
#define SPARES 6

static struct {
    Own standard[3];
    int channel;
    int spare[SPARES];
} own = {.spare = {-1, -1, -1, -1, -1, -1}};

int descriptors_duplicate(int fd)
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
        own.standard[fd].fd = descriptors_duplicate(fd);
        if (own.standard[fd].fd < 0)
            return own.standard[fd].fd;
        identify(&own.standard[fd]);
    }
    own.channel = descriptors_duplicate(CHANNEL_FD);
    if (own.channel < 0)
        return own.channel;
    close(CHANNEL_FD);
    descriptors_spare_keep();
    return 0;
}

void descriptors_spare_keep(void)
{
    for (int i = 0; i < SPARES; i++) {
        if (own.spare[i] < 0)
            own.spare[i] = descriptors_duplicate(own.standard[0].fd);
    }
}

void descriptors_spare_free(void)
{
    for (int i = 0; i < SPARES; i++)
        close_fd(&own.spare[i]);
}

int descriptors_stream(int fd)
{
    return own.standard[fd].fd;
}

int descriptors_channel(void)
{
    return own.channel;
}

static bool is_right(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_dev == own.standard[fd].device && st.st_ino == own.standard[fd].inode;
}

void descriptors_restore(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (!is_right(fd))
            dup2(own.standard[fd].fd, fd);
    }
}

void descriptors_mute(void)
{
    _cleanup_(closep) int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    for (int stream = 1; fd >= 0 && stream <= 2; stream++)
        dup2(fd, stream);
}

bool descriptors_is_own(int fd)
{
    return fd <= STDERR_FILENO || fd == own.channel || fd == own.standard[0].fd || fd == own.standard[1].fd ||
           fd == own.standard[2].fd;
}

int descriptors_stream_of(dev_t device, ino_t inode)
{
    for (int fd = 1; fd <= 2; fd++) {
        if (own.standard[fd].device == device && own.standard[fd].inode == inode)
            return fd;
    }
    return 0;
}

static void stream_set(int fd, int source)
{
    dup3(source, own.standard[fd].fd, O_CLOEXEC);
    dup2(source, fd);
    identify(&own.standard[fd]);
}

static void channel_set(int channel)
{
    dup3(channel, own.channel, O_CLOEXEC);
    close(channel);
}

void descriptors_replace(const int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] < 0)
            continue;
        stream_set(i + 1, fds[i]);
        close(fds[i]);
    }
}

void descriptors_detach(int channel)
{
    channel_set(channel); /* first: where a cell has closed 0, 1 or 2, it has that number */
    identify(&own.standard[0]);
    descriptors_restore();
    stream_set(1, own.standard[0].fd);
    stream_set(2, own.standard[0].fd);
}

void descriptors_attach(const int fds[CHANNEL_FDS])
{
    channel_set(fds[0]);
    descriptors_replace(fds + 1);
}
