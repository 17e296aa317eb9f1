#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/privilege/confine.h"
#include "tests/support/cmocka.h"

/* 0, or the error of making such a socket, and such a pair of them, in a process that only serves. */
static int errors_of(int family, int type, int *ret_pair)
{
    int results[2] = {-1, -1}, between[2], status;
    pid_t child;

    assert_int_equal(pipe(between), 0);
    child = fork();
    if (child == 0) {
        int pair[2];

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter_install(false) == 0) {
            results[0] = socket(family, type, 0) < 0 ? errno : 0;
            results[1] = socketpair(family, type, 0, pair) < 0 ? errno : 0;
        }
        _exit(write(between[1], results, sizeof(results)) != sizeof(results));
    }
    assert_int_equal(read(between[0], results, sizeof(results)), sizeof(results));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(between[0]);
    close(between[1]);
    *ret_pair = results[1];
    return results[0];
}

TEST(test_sockets_that_need_a_connection)
{
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK};
    int pair;

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        assert_int_equal(errors_of(AF_UNIX, types[i], &pair), 0);
        assert_int_equal(pair, 0);
    }
}

/* The kernel makes a socket for datagrams of a raw one, too. */
TEST(test_sockets_that_send_to_any_address)
{
    static const int types[] = {SOCK_DGRAM, SOCK_RAW, SOCK_RAW | SOCK_CLOEXEC, SOCK_RDM, 0};
    int pair;

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        assert_int_equal(errors_of(AF_UNIX, types[i], &pair), EPERM);
        assert_int_equal(pair, EPERM);
    }
}

TEST(test_sockets_of_other_families)
{
    static const int families[] = {AF_INET, AF_INET6, AF_NETLINK, AF_VSOCK};
    int pair;

    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++) {
        assert_int_equal(errors_of(families[i], SOCK_STREAM, &pair), EAFNOSUPPORT);
        assert_int_equal(pair, EAFNOSUPPORT);
    }
}
