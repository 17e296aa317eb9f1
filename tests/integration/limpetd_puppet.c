/* limpetd with a puppet in place of its controller, or of its files worker too (LIMPET_PUPPETS is 2): who has
 * taken over such a process. It has the rights of that process and its sockets, which it hands to the test
 * over standard input, and does what the test then says. It is linked with limpetd's main and library, where
 * it wraps two functions. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host/daemon/controller.h"
#include "host/file_service/process/serve.h"

int __wrap_controller_run(const Options *options, Paths *paths, const ControllerPeers *peers,
                          void (*ready)(void *userdata), void *userdata, Problem *problem);
int __wrap_files_worker_run(const FilesWorker *worker, Problem *problem);
int __real_files_worker_run(const FilesWorker *worker, Problem *problem);

/* A packet with copies of descriptors. */
static void say(int socket, const char *text, const int *fds, size_t n)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {0};
    struct iovec data = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    struct cmsghdr *header = (struct cmsghdr *)(void *)control;

    if (n > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(n * sizeof(int));
        *header = (struct cmsghdr){CMSG_LEN(n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(header), fds, n * sizeof(int));
    }
    if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
        exit(1);
}

/* A socket for an answer, and the other end of it. */
static void make_pair(int control)
{
    int ends[2] = {-1, -1};

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        exit(1);
    say(control, "pair", ends, 2);
    close(ends[0]);
    close(ends[1]);
}

/* The errno, or a descriptor. */
static void try_to_open(int control, const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char error[16];

    snprintf(error, sizeof(error), "%d", fd < 0 ? errno : 0);
    say(control, error, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
}

/* Until the test lets go. */
static void obey(const char *name, int launcher, int other)
{
    char order[4096];
    int ends[2];
    ssize_t n;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        exit(1);
    say(STDIN_FILENO, name, (int[]){launcher, other, ends[1]}, 3);
    close(ends[1]);
    while ((n = recv(ends[0], order, sizeof(order) - 1, 0)) > 0) {
        order[n] = '\0';
        if (strcmp(order, "pair") == 0)
            make_pair(ends[0]);
        else
            try_to_open(ends[0], order);
    }
}

int __wrap_controller_run(const Options *options, Paths *paths, const ControllerPeers *peers,
                          void (*ready)(void *userdata), void *userdata, Problem *problem)
{
    obey("controller", peers->launcher, peers->files_worker);
    return 0;
}

int __wrap_files_worker_run(const FilesWorker *worker, Problem *problem)
{
    const char *puppets = getenv("LIMPET_PUPPETS");

    if (!puppets || strcmp(puppets, "2") != 0)
        return __real_files_worker_run(worker, problem);
    obey("files worker", worker->launcher, worker->controller);
    return 0;
}
