/* limpet keygen */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/cli/cli.h"
#include "clients/c/keys.h"
#ifdef LIMPET_NET
#include "clients/c/zmq_library.h"
#endif

static bool make_pair(Certificate *ret)
{
#ifdef LIMPET_NET
    const ZmqLibrary *zmq = zmq_library();

    return zmq && zmq->zmq_curve_keypair(ret->public_key, ret->secret_key) == 0;
#else
    return false;
#endif
}

/* The directories of the standard file. */
static void make_directories(char *path)
{
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static int write_pair(const Certificate *pair, const char *path)
{
    int fd _cleanup_(closep) = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : certificate_write(pair, fd);
}

static int run(const void *values, char **operands, int n)
{
    char path[PATH_MAX];
    Certificate pair;
    int r;

    if (n > 0) {
        snprintf(path, sizeof(path), "%s", operands[0]);
    } else {
        keys_path(path);
        make_directories(path);
    }
    if (!make_pair(&pair)) {
        fprintf(stderr, "limpet: keys are made by libzmq, which is not installed (Debian: libzmq5)\n");
        return EXIT_SANDBOX;
    }
    r = write_pair(&pair, path);
    explicit_bzero(pair.secret_key, sizeof(pair.secret_key));
    if (r < 0) {
        fprintf(stderr, "limpet: %s: %s\n", path,
                r == -EEXIST ? "it is there already; a new key needs another file" : strerror(-r));
        return EXIT_SANDBOX;
    }
    fprintf(stderr, "The pair of keys is in %s. The public key, for a line of authorized_keys:\n", path);
    printf("%s\n", pair.public_key);
    return 0;
}

const Command command_keygen = {
    .name = "keygen",
    .usage = "[FILE]",
    .summary = "Makes a pair of keys for controllers on other machines, and prints the public one",
    .details = "\nThe default FILE is limpet.key_secret in the user's configuration directory, where\n"
               "`limpet --connect` looks for it. An existing file is not replaced.",
    .operands_max = 1,
    .operands = {COMPLETE_FILE},
    .run = run,
};
