#include "clients/c/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "clients/c/dial.h"
#include "clients/c/remote.h"

static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value && *value ? value : NULL;
}

#define ROOTS "/run/limpet/limpet.sock"

static int path_find(Address *address)
{
    const char *given = environment("LIMPET_SOCKET");
    const char *runtime = environment("XDG_RUNTIME_DIR");
    const char *temporary = environment("TMPDIR");
    uid_t uid = geteuid();

    char **ret = &address->path;

    address->shared_parent = !given && uid != 0 && !runtime;
    address->or_roots = !given && uid != 0;
    if (given)
        *ret = strdup(given);
    else if (uid == 0)
        *ret = strdup(ROOTS);
    else if (runtime)
        return asprintf(ret, "%s/limpet/limpet.sock", runtime);
    else
        return asprintf(ret, "%s/limpet-%u/limpet.sock", temporary ? temporary : "/tmp", (unsigned)uid);
    return *ret ? 0 : -1;
}

static int check_dialled(const char *address, Problem *problem)
{
    char **arguments _cleanup_(dial_arguments_freep) = NULL;

    return dial_arguments(&arguments, address, problem);
}

int address_init(Address *ret, const char *path, Problem *problem)
{
    Address address = ADDRESS_NULL;
    int r = 0;

    if (path)
        address.path = strdup(path);
    else
        r = path_find(&address);
    if (r < 0 || !address.path)
        return -ENOMEM;
    address.dialled = dial_is(address.path);
    address.remote = address.dialled || remote_is(address.path);
    r = address.dialled  ? check_dialled(address.path, problem)
        : address.remote ? keys_find(&address.keys, problem)
                         : 0;
    if (r < 0) {
        address_deinit(&address);
        return r;
    }
    if (!address.remote && strstr(address.path, "://")) {
        problem_set(problem, ERR_BAD_REQUEST,
                    "the address %s does not have the form of one: tcp://, ssh://, docker://, kubernetes://, "
                    "exec: or the path of a socket",
                    address.path);
        address_deinit(&address);
        return -EPROTO;
    }
    if (!address.remote && strlen(address.path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
        problem_set(problem, ERR_BAD_REQUEST, "the socket path is too long (at most %zu bytes): %s",
                    sizeof(((struct sockaddr_un *)0)->sun_path) - 1, address.path);
        address_deinit(&address);
        return -EPROTO;
    }
    *ret = address;
    return 0;
}

int address_init_roots(Address *ret)
{
    *ret = (Address){.path = strdup(ROOTS), .is_roots = true};
    return ret->path ? 0 : -ENOMEM;
}

void address_deinit(Address *address)
{
    free(address->path);
    explicit_bzero(&address->keys, sizeof(address->keys));
    *address = ADDRESS_NULL;
}

int address_check(const Address *address, Problem *problem)
{
    _cleanup_(freep) char *directory = NULL;
    struct stat status;

    if (!address->shared_parent || address->remote)
        return 0;
    directory = strndup(address->path, (size_t)(strrchr(address->path, '/') - address->path));
    if (!directory)
        return -ENOMEM;
    if (lstat(directory, &status) < 0)
        return errno == ENOENT ? -ENOENT
                               : problem_set(problem, ERR_UNAVAILABLE, "%s: %s", directory, strerror(errno));
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 0777) != 0700)
        return problem_set(
            problem, ERR_DENIED,
            "%s must be a directory with mode 0700 that belongs to you, otherwise another user may listen "
            "there; remove it, or set LIMPET_SOCKET",
            directory);
    return 0;
}
