/* The service manager is told of the start, and told once. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/daemon/process.h"
#include "proto/base/base.h"
#include "tests/support/cmocka.h"

/* A manager's socket without a file, whose name is in NOTIFY_SOCKET. */
static int listen_as_manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[64];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    snprintf(name, sizeof(name), "@limpet-test-notify-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

TEST(test_readiness_is_told_once)
{
    int manager _cleanup_(closep) = listen_as_manager();
    char said[64] = "";

    notify_ready();
    assert_true(recv(manager, said, sizeof(said) - 1, 0) > 0);
    assert_string_equal(said, "READY=1");
    assert_null(getenv("NOTIFY_SOCKET"));
    notify_ready();
    assert_int_equal(recv(manager, said, sizeof(said), 0), -1);
}

/* None of them is an address of a socket. */
TEST(test_what_is_no_socket_is_passed_over)
{
    static const char *const given[] = {"", "/", "@", "relative", "vsock:2:1234"};

    for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", given[i], 1), 0);
        notify_ready();
    }
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    notify_ready();
}
