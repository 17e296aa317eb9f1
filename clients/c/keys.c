#include "clients/c/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const char *environment(const char *name)
{
    const char *value = secure_getenv(name);

    return value && *value ? value : NULL;
}

void keys_path(char ret[static PATH_MAX])
{
    const char *given = environment("LIMPET_KEY"), *config = environment("XDG_CONFIG_HOME");
    const char *home = environment("HOME");

    if (given)
        snprintf(ret, PATH_MAX, "%s", given);
    else if (config)
        snprintf(ret, PATH_MAX, "%s/limpet/limpet.key_secret", config);
    else
        snprintf(ret, PATH_MAX, "%s/.config/limpet/limpet.key_secret", home ? home : "");
}

static int read_own(Certificate *ret, Problem *problem)
{
    int fd _cleanup_(closep) = -1;
    char path[PATH_MAX];
    int r;

    keys_path(path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    r = fd < 0 ? -errno : certificate_read(ret, fd);
    if (r == 0)
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST,
                       "%s has no pair of keys (%s); make one with `limpet keygen`, and have the public key "
                       "authorized by whoever runs the controller",
                       path, strerror(-r));
}

int keys_find(RemoteKeys *ret, Problem *problem)
{
    const char *server = environment("LIMPET_SERVER_KEY");
    uint8_t key[32];

    if (!server || strlen(server) != Z85_KEY_SIZE || !z85_decode_key(key, server))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "set LIMPET_SERVER_KEY, or --server-key, to the public key of the controller: the %u "
            "characters that `limpetd --check` prints there",
            Z85_KEY_SIZE);
    memcpy(ret->server, server, Z85_KEY_SIZE + 1);
    return read_own(&ret->own, problem);
}
