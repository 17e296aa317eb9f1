#include "host/net/start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "host/net/authorized.h"
#include "host/net/protocol.h"
#include "proto/certificate.h"

#define BACKLOG     256
#define SECRET_FILE "limpet-net.key_secret"

/* ---- the program ---- */

/* Beside limpetd, as a build tree has it, or an install. */
static bool find_program(char ret[static PATH_MAX])
{
    static const char *const places[] = {"limpet-net", "../libexec/limpet-net"};
    char self[PATH_MAX] = "", *slash;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || !(slash = strrchr(self, '/')))
        return false;
    *slash = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (snprintf(ret, PATH_MAX, "%s/%s", self, places[i]) < PATH_MAX && access(ret, X_OK) == 0)
            return true;
    return false;
}

bool net_supported(void)
{
    char program[PATH_MAX];

    return find_program(program);
}

/* ---- the address ---- */

/* "tcp://HOST:PORT", where HOST may be in brackets, or * for any. */
static int split_address(const char *address, char host[static 256], char port[static 8])
{
    const char *begin = address + strlen("tcp://"), *colon = strrchr(address, ':');
    size_t n;

    if (strncmp(address, "tcp://", strlen("tcp://")) != 0 || colon < begin || strlen(colon + 1) > 5 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1])
        return -EINVAL;
    n = (size_t)(colon - begin);
    if (n > 2 && *begin == '[' && begin[n - 1] == ']') {
        begin++;
        n -= 2;
    }
    if (n == 0 || n > 255)
        return -EINVAL;
    memcpy(host, begin, n);
    host[n] = '\0';
    strcpy(port, colon + 1);
    return 0;
}

static int listen_at(const struct addrinfo *at)
{
    int fd _cleanup_(closep) = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return take_fd(&fd);
}

int net_listen(const char *address, Problem *problem)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE},
                    *found;
    char host[256], port[8];
    int r;

    if (split_address(address, host, port) < 0)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "listen cannot be '%s': it is tcp://ADDRESS:PORT, such as tcp://192.0.2.1:7310, or * "
            "for all addresses",
            address);
    r = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, port, &hints, &found);
    if (r != 0)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot listen at %s: %s", address, gai_strerror(r));
    r = listen_at(found);
    freeaddrinfo(found);
    if (r < 0)
        return problem_set(problem, ERR_UNAVAILABLE, "cannot listen at %s: %s", address, strerror(-r));
    return r;
}

/* ---- the key ---- */

/* Whoever may write to the directory may have put another file in its place. */
static int open_secret(const char *state_dir, Problem *problem)
{
    char path[PATH_MAX];
    int fd _cleanup_(closep) = -1;
    struct stat st;

    if (snprintf(path, sizeof(path), "%s/" SECRET_FILE, state_dir) >= (int)sizeof(path))
        return problem_set(problem, ERR_BAD_REQUEST, "the path of the state directory is too long");
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EROFS) /* a secret that was mounted there */
        fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot open %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid() || st.st_mode & 077)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "%s must be a file of the user of limpetd, which nobody else may read (mode 0600)",
                           path);
    return take_fd(&fd);
}

bool net_public_key(const char *state_dir, char ret[static 41])
{
    int fd _cleanup_(closep) = -1;
    char path[PATH_MAX];
    Certificate certificate;

    snprintf(path, sizeof(path), "%s/" SECRET_FILE, state_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || certificate_read(&certificate, fd) < 0)
        return false;
    memcpy(ret, certificate.public_key, sizeof(certificate.public_key));
    explicit_bzero(&certificate, sizeof(certificate));
    return true;
}

/* ---- both ---- */

int net_door_open(NetDoor *ret, const char *address, const char *state_dir, const char *authorized_keys,
                  Problem *problem)
{
    NetDoor door = NET_DOOR_NULL;
    int r = 0;

    if (!net_supported())
        return problem_set(problem, ERR_BAD_REQUEST,
                           "this limpetd cannot listen on a network: the program limpet-net is not installed "
                           "with it (the build option LIMPET_NET, which needs libzmq)");
    r = door.keys = authorized_load(authorized_keys, problem);
    if (r >= 0)
        r = door.secret = open_secret(state_dir, problem);
    if (r >= 0)
        r = door.listening = net_listen(address, problem);
    if (r < 0) {
        net_door_close(&door);
        return r;
    }
    *ret = door;
    return 0;
}

void net_door_close(NetDoor *door)
{
    close_fd(&door->listening);
    close_fd(&door->secret);
    close_fd(&door->keys);
}

/* ---- the process ---- */

int net_start(Loop *loop, LoopChild *child, const NetDoor *door, const Account *account,
              const char *log_level, uint64_t connections, int socket)
{
    char program[PATH_MAX], most[24];
    const Helper helper = {
        .name = NET_PROGRAM,
        .program = program,
        .account = account,
        .log_level = log_level,
        .argument = most,
        .fds = {door->listening, door->secret},
        .n_fds = 2,
    };

    if (door->listening < 0)
        return -EINVAL;
    if (!find_program(program))
        return -ENOENT;
    snprintf(most, sizeof(most), "%llu", (unsigned long long)connections);
    return helper_start(&helper, loop, child, NULL, socket);
}
