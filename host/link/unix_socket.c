#include "host/link/unix_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int address_of(struct sockaddr_un *ret, const char *path)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(ret->sun_path))
        return -ENAMETOOLONG;
    strcpy(ret->sun_path, path);
    return 0;
}

/* A full backlog means that somebody listens, too; so does a socket of another kind. */
bool unix_socket_answers(const char *path)
{
    int fd _cleanup_(closep) = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address;

    if (fd < 0 || address_of(&address, path) < 0)
        return false;
    return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN ||
           errno == EPROTOTYPE;
}

/* The file is ours from bind() on. */
static int take_file(UnixSocket *unix_socket)
{
    struct stat st;

    if (lstat(unix_socket->path, &st) < 0)
        return -errno;
    unix_socket->device = st.st_dev;
    unix_socket->inode = st.st_ino;
    return listen(unix_socket->fd, SOMAXCONN) < 0 ? -errno : 0;
}

static int make(UnixSocket *made, const char *path)
{
    struct sockaddr_un address;
    int r = address_of(&address, path);

    if (r < 0)
        return r;
    if (unix_socket_answers(path))
        return -EADDRINUSE;
    made->path = strdup(path);
    made->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!made->path)
        return -ENOMEM;
    /* The file gets the mode that the socket has. */
    if (made->fd < 0 || fchmod(made->fd, 0600) < 0 || (unlink(path) < 0 && errno != ENOENT) ||
        bind(made->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    return take_file(made);
}

int unix_socket_listen(UnixSocket *ret, const char *path)
{
    UnixSocket made = UNIX_SOCKET_NULL;
    int r = make(&made, path);

    if (r < 0)
        unix_socket_deinit(&made);
    else
        *ret = made;
    return r;
}

/* Its directory is ours: what has that name is what we made. */
int unix_socket_admit(const UnixSocket *unix_socket, gid_t group)
{
    const char *path = unix_socket->path;

    return lchown(path, (uid_t)-1, group) < 0 || chmod(path, 0660) < 0 ? -errno : 0;
}

int unix_socket_adopt(UnixSocket *ret, int fd, const char *path)
{
    UnixSocket adopted = {.fd = fd, .path = strdup(path)};

    if (!adopted.path) {
        close(fd);
        return -ENOMEM;
    }
    *ret = adopted;
    return 0;
}

void unix_socket_deinit(UnixSocket *unix_socket)
{
    struct stat st;

    if (unix_socket->inode != 0 && lstat(unix_socket->path, &st) == 0 && st.st_dev == unix_socket->device &&
        st.st_ino == unix_socket->inode)
        unlink(unix_socket->path);
    close_fd(&unix_socket->fd);
    free(unix_socket->path);
    *unix_socket = UNIX_SOCKET_NULL;
}
