/* proto/zmtp_socket.h: descriptors that come beside its bytes. Both ends are in one process and one thread,
 * so that nothing here waits for time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/fdio.h"
#include "proto/zmtp_socket.h"
#include "tests/support/cmocka.h"

#define SETTLE 32

/* A message of one byte. */
#define FRAME "\0\1x"

#define GREETING                                                                                             \
    "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"         \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define READY_ROUTER "\x04\x29\5READY\13Socket-Type\0\0\0\6ROUTER\10Identity\0\0\0\0"

static struct {
    Loop *loop;
    LoopIdle idle;
    int rounds;
    ZmtpSocket socket;
    int peer;
    size_t before; /* descriptors of this process */

    unsigned messages, lost;
    int error;
    bool take; /* at each message */
    int taken[ZMTP_PASSED];
    unsigned n_taken;
} t;

static void on_open(ZmtpSocket *socket)
{
}

static void on_message(ZmtpSocket *socket, const ZmtpFrame *frame)
{
    t.messages++;
    if (t.take)
        t.taken[t.n_taken++] = zmtp_socket_take_passed(socket);
}

static void on_lost(ZmtpSocket *socket, int error)
{
    t.lost++;
    t.error = error;
}

static const ZmtpSocketEvents events = {.open = on_open, .message = on_message, .lost = on_lost};

static size_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(directory);
    while (readdir(directory))
        n++;
    closedir(directory);
    return n;
}

static void on_idle(LoopIdle *idle)
{
    if (t.rounds-- > 0)
        loop_idle_add(t.loop, idle, on_idle);
    else
        loop_stop(t.loop, 0);
}

/* Some turns of the loop, in which it never sleeps. */
static void turn(void)
{
    t.rounds = SETTLE;
    loop_idle_add(t.loop, &t.idle, on_idle);
    assert_int_equal(loop_run(t.loop), 0);
}

static void say(const void *bytes, size_t size)
{
    assert_int_equal(send(t.peer, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
    turn();
}

/* Literals end in a NUL that is not sent. */
#define SAY(literal) say(literal, sizeof(literal) - 1)

/* Shakes hands. The numbers of descriptors are compared with those from now on. */
static void open_taking(bool takes)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    t.peer = pair[1];
    assert_int_equal(zmtp_socket_open(&t.socket, t.loop, pair[0], ZMTP_DEALER, 1000, 1 << 20, &events), 0);
    t.socket.takes_passed = takes;
    SAY(GREETING READY_ROUTER);
    assert_int_equal(t.socket.zmtp.state, ZMTP_READY);
    t.before = count_descriptors();
}

static int set_up(void **state)
{
    memset(&t, 0, sizeof(t));
    t.peer = -1;
    t.socket = ZMTP_SOCKET_NULL;
    return loop_new(&t.loop);
}

static int tear_down(void **state)
{
    zmtp_socket_close(&t.socket);
    close_fd(&t.peer);
    loop_idle_remove(&t.idle);
    loop_free(t.loop);
    return 0;
}

/* The reading end of a pipe in which is that number. */
static int make_passed(uint8_t number)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], &number, 1), 1);
    close(ends[1]);
    return ends[0];
}

static void pass(uint8_t number)
{
    int fd = make_passed(number);

    assert_int_equal(send_passing(t.peer, FRAME, 3, fd), 3);
    close(fd);
}

static void pass_up_to(uint8_t last)
{
    for (uint8_t number = 1; number <= last; number++)
        pass(number);
}

/* Takes the descriptor's number, and closes it. */
static int number_of(int fd)
{
    uint8_t number = 0;

    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(read(fd, &number, 1), 1);
    close(fd);
    return number;
}

static void assert_none_leaked(void)
{
    assert_int_equal(count_descriptors(), t.before);
}

/* Its own descriptor is closed too. */
static void assert_lost(int error)
{
    assert_int_equal(t.lost, 1);
    assert_int_equal(t.error, error);
    assert_int_equal(t.socket.fd, -1);
    assert_int_equal(zmtp_socket_take_passed(&t.socket), -1);
    assert_int_equal(count_descriptors(), t.before - 1);
}

TEST_WITH(none_to_take, set_up, tear_down)
{
    open_taking(true);
    SAY(FRAME);
    assert_int_equal(t.messages, 1);
    assert_int_equal(zmtp_socket_take_passed(&t.socket), -1);
}

TEST_WITH(in_their_order, set_up, tear_down)
{
    open_taking(true);
    pass_up_to(ZMTP_PASSED);
    turn();
    assert_int_equal(t.messages, ZMTP_PASSED);
    for (int number = 1; number <= ZMTP_PASSED; number++)
        assert_int_equal(number_of(zmtp_socket_take_passed(&t.socket)), number);
    assert_int_equal(zmtp_socket_take_passed(&t.socket), -1);
    assert_int_equal(t.lost, 0);
    assert_none_leaked();
}

TEST_WITH(taken_where_its_message_comes, set_up, tear_down)
{
    open_taking(true);
    t.take = true;
    pass_up_to(3);
    turn();
    SAY(FRAME);
    assert_int_equal(t.n_taken, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(number_of(t.taken[i]), i + 1);
    assert_int_equal(t.taken[3], -1);
    assert_none_leaked();
}

TEST_WITH(taken_ones_make_room, set_up, tear_down)
{
    open_taking(true);
    for (int round = 0; round < 4; round++) {
        pass_up_to(ZMTP_PASSED / 2);
        turn();
        for (int number = 1; number <= ZMTP_PASSED / 2; number++)
            assert_int_equal(number_of(zmtp_socket_take_passed(&t.socket)), number);
    }
    assert_int_equal(t.lost, 0);
    assert_none_leaked();
}

TEST_WITH(too_many, set_up, tear_down)
{
    open_taking(true);
    pass_up_to(ZMTP_PASSED + 1);
    turn();
    assert_lost(-EPROTO);
}

TEST_WITH(closed_before_they_are_taken, set_up, tear_down)
{
    open_taking(true);
    pass_up_to(5);
    turn();
    assert_int_equal(number_of(zmtp_socket_take_passed(&t.socket)), 1);
    zmtp_socket_close(&t.socket);
    assert_int_equal(t.lost, 0);
    assert_int_equal(count_descriptors(), t.before - 1);
}

TEST_WITH(the_peer_goes_before_they_are_taken, set_up, tear_down)
{
    open_taking(true);
    pass_up_to(5);
    turn();
    assert_int_equal(shutdown(t.peer, SHUT_RDWR), 0);
    turn();
    assert_lost(-ECONNRESET);
}

TEST_WITH(beside_what_is_no_zmtp, set_up, tear_down)
{
    int fd = make_passed(1);

    open_taking(true);
    assert_int_equal(send_passing(t.peer, "\xff\xff\xff", 3, fd), 3);
    turn();
    assert_lost(-EPROTO);
    close(fd);
}

TEST_WITH(none_for_whom_takes_none, set_up, tear_down)
{
    open_taking(false);
    pass_up_to(ZMTP_PASSED + 1);
    turn();
    assert_int_equal(t.messages, ZMTP_PASSED + 1);
    assert_int_equal(t.lost, 0);
    assert_int_equal(zmtp_socket_take_passed(&t.socket), -1);
    assert_none_leaked();
}

/* Several at once, as ours never passes them: the first is taken, or none. */
TEST_WITH(several_beside_one_byte, set_up, tear_down)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int[4]))];
    } passed = {0};
    struct iovec data = {.iov_base = (char *)FRAME, .iov_len = 3};
    int fds[] = {make_passed(1), make_passed(2), make_passed(3), make_passed(4)};

    open_taking(true);
    for (size_t n = 2; n <= ARRAY_SIZE(fds); n++) {
        const struct msghdr message = {.msg_iov = &data,
                                       .msg_iovlen = 1,
                                       .msg_control = &passed,
                                       .msg_controllen = CMSG_SPACE(n * sizeof(int))};

        passed.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n * sizeof(int))};
        memcpy(CMSG_DATA(&passed.header), fds, n * sizeof(int));
        assert_int_equal(sendmsg(t.peer, &message, MSG_NOSIGNAL), 3);
        turn();
        for (int fd; (fd = zmtp_socket_take_passed(&t.socket)) >= 0;)
            close(fd);
        assert_none_leaked();
    }
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
}
