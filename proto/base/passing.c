#include "proto/base/passing.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

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
