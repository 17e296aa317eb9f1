#include "proto/base/fdio.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int write_all(int fd, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;

    while (size > 0) {
        ssize_t n = write(fd, from, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        from += n;
        size -= (size_t)n;
    }
    return 0;
}

ssize_t read_whole_at(int fd, void *to, size_t size, off_t offset)
{
    size_t used = 0;

    while (used < size) {
        uint8_t *at = (uint8_t *)to + used;
        ssize_t n = offset < 0 ? read(fd, at, size - used) : pread(fd, at, size - used, offset + (off_t)used);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

ssize_t read_whole(int fd, void *to, size_t size)
{
    return read_whole_at(fd, to, size, -1);
}

typedef union Passed {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
} Passed;

ssize_t send_passing(int socket, const void *bytes, size_t size, int fd)
{
    Passed passed = {
        .header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fd))}};
    struct iovec data = {.iov_base = (void *)bytes, .iov_len = size};
    const struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &passed, .msg_controllen = sizeof(passed)};
    ssize_t n;

    memcpy(CMSG_DATA(&passed.header), &fd, sizeof(fd));
    do
        n = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t receive_passed(int socket, void *to, size_t size, int *ret_fd)
{
    Passed passed = {0};
    struct iovec data = {.iov_base = to, .iov_len = size};
    /* Room for one descriptor: more of them the kernel closes. What pads the space would hold a second. */
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &passed, .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *part = n < 0 ? NULL : CMSG_FIRSTHDR(&message);

    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
        part->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(part), sizeof(int));
    return n < 0 ? -errno : n;
}
