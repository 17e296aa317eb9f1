/* Limits of what a peer can do to a Listener and to other peers. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "host/link/request.h"
#include "proto/base/clock.h"
#include "tests/unit/listener_peers.h"

/* Whatever is said takes longer to hear than one user has in a turn of the loop. Users are heard in turn, and
 * so are the two connections of the first user; the third is of another one. */
#define SAID 20

static void assert_in_turn(size_t a, size_t b)
{
    assert_true(a <= b + 2 && b <= a + 2);
}

static void on_long(void *userdata, Peer peer, const PeerCredentials *credentials, const uint8_t *bytes,
                    size_t size)
{
    size_t *heard = userdata;
    uint64_t end = clock_now() + NSEC_PER_MSEC;

    while (clock_now() < end)
        ;
    heard[bytes[0]]++;
    assert_in_turn(heard[0], heard[1]);
    if (heard[2] < SAID)
        assert_in_turn(heard[0] + heard[1], heard[2]);
}

TEST_WITH(many_connections_have_the_time_of_one, set_up, tear_down)
{
    static const ListenerEvents listening = {.on_message = on_long, .on_gone = on_gone};
    const PeerCredentials another = {.uid = getuid() + 1};
    size_t heard[MAX_PEERS] = {0};
    char said[256];
    int pair[2];

    t.listener = listener_free(t.listener);
    assert_int_equal(listener_new(&t.listener, t.loop, t.path, &limits, &listening, heard), 0);
    dial_ready();
    dial_ready();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(listener_add(t.listener, pair[0], &another), 0);
    t.fds[2] = pair[1];
    SAY(t.fds[2], GREETING READY_DEALER);
    assert_int_equal(recv(t.fds[2], said, sizeof(said), 0), SAID_FIRST);
    for (int n = 0; n < SAID; n++)
        for (char i = 0; i < MAX_PEERS; i++)
            assert_int_equal(send(t.fds[(int)i], (char[]){0, 1, i}, 3, 0), 3);
    turn(4 * SAID);
    for (int i = 0; i < MAX_PEERS; i++)
        assert_int_equal(heard[i], SAID);
}

TEST_WITH(the_largest_message, set_up, tear_down)
{
    char frame[9 + MAX_FRAME] = "\2\0\0\0\0\0\0\3\xe8";
    int fd = dial_ready();

    say(fd, frame, sizeof(frame) - 1);
    assert_int_equal(t.messages, 0);
    say(fd, "x", 1);
    assert_int_equal(t.messages, 1);
    assert_int_equal(t.gone, 0);
}

TEST_WITH(a_slow_reader_bounds_what_waits_for_it, set_up, tear_down)
{
    static char chunk[50000], said[65536];
    size_t sent = 0, read = 0;
    int fd = dial_ready(), r;
    ssize_t n;

    SAY(fd, "\0\2hi");
    while ((r = listener_send(t.listener, t.last, chunk, sizeof(chunk))) == 0) {
        sent += 9 + sizeof(chunk);
        turn(1);
        assert_true(sent < 8 * MAX_QUEUE);
    }
    assert_int_equal(r, -EAGAIN);
    assert_true(sent > MAX_QUEUE / 2);
    assert_int_equal(t.gone, 0);
    while (read < sent) {
        n = recv(fd, said, sizeof(said), 0);
        if (n > 0)
            read += (size_t)n;
        else
            turn(SETTLE);
    }
    assert_int_equal(read, sent);
    assert_int_equal(listener_send(t.listener, t.last, "x", 1), 0);
    turn(SETTLE);
    assert_int_equal(recv(fd, said, sizeof(said), 0), 10);
}

/* PONGs are for someone who reads as well. */
TEST_WITH(a_flood_of_pings_ends, set_up, tear_down)
{
    static char flood[23 * 1000];
    int fd = dial_ready();

    for (size_t i = 0; i < sizeof(flood); i += 23)
        memcpy(flood + i,
               "\4\x15\4PING\0\0"
               "0123456789abcd",
               23);
    for (int i = 0; t.gone == 0; i++) {
        assert_true(i < 1000);
        send(fd, flood, sizeof(flood), MSG_NOSIGNAL);
        turn(2);
    }
    assert_true(is_closed(fd));
}

TEST_WITH(one_too_many_is_turned_away, set_up, tear_down)
{
    int fds[MAX_PEERS], more;

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        fds[i] = dial_ready();
    more = dial();
    turn(SETTLE);
    assert_true(is_closed(more));
    hang_up(more);
    SAY(fds[0], "\0\2hi");
    assert_int_equal(t.messages, 1);
    hang_up(fds[1]);
    turn(SETTLE);
    more = dial_ready();
    SAY(more, "\0\2hi");
    assert_int_equal(t.messages, 2);
}

static void on_watchdog(LoopTimer *timer)
{
    fail_msg("nothing happened in time");
}
static void stop_when_gone(void *userdata, Peer peer)
{
    t.gone++;
    loop_stop(t.loop, 0);
}
TEST_WITH(who_says_nothing_is_dropped_in_time, set_up, tear_down)
{
    static const ListenerEvents stopping = {.on_message = on_message, .on_gone = stop_when_gone};
    static const char *const starts[] = {"", "\xff", GREETING};
    static const size_t sizes[] = {0, 1, 64};
    ListenerLimits hasty = limits;
    int good;

    hasty.handshake = NSEC_PER_SEC;
    t.listener = listener_free(t.listener);
    assert_int_equal(listener_new(&t.listener, t.loop, t.path, &hasty, &stopping, NULL), 0);
    loop_timer_set(t.loop, &t.watchdog, clock_now() + 60 * NSEC_PER_SEC, on_watchdog);
    good = dial_ready();
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
        int fd = dial();

        say(fd, starts[i], sizes[i]);
        assert_int_equal(loop_run(t.loop), 0);
        assert_int_equal(t.gone, i + 1);
        assert_true(is_closed(fd));
        hang_up(fd);
    }
    SAY(good, "\0\2hi");
    assert_int_equal(t.messages, 1);
}

static void stop_when_heard(void *userdata, Peer peer, const PeerCredentials *credentials,
                            const uint8_t *bytes, size_t size)
{
    t.messages++;
    loop_stop(t.loop, 0);
}
/* Without descriptors nobody comes in; with them again the one who waited does. */
TEST_WITH(no_descriptor_left, set_up, tear_down)
{
    static const ListenerEvents stopping = {.on_message = stop_when_heard, .on_gone = on_gone};
    static const char all[] = GREETING READY_DEALER "\0\2hi";
    struct rlimit before, none;
    int fd, next = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(next);
    t.listener = listener_free(t.listener);
    assert_int_equal(listener_new(&t.listener, t.loop, t.path, &limits, &stopping, NULL), 0);
    fd = dial();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    say(fd, all, sizeof(all) - 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(t.messages, 0);
    loop_timer_set(t.loop, &t.watchdog, clock_now() + 60 * NSEC_PER_SEC, on_watchdog);
    assert_int_equal(loop_run(t.loop), 0);
    assert_int_equal(t.messages, 1);
}

/* Takes up to `size` bytes and what is passed beside them; returns how many descriptors that are. */
static size_t receive(int fd, size_t size, size_t *ret_size)
{
    static char bytes[1 << 20];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))];
    struct iovec part = {bytes, MIN(size, sizeof(bytes))};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *passed = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    *ret_size = n > 0 ? (size_t)n : 0;
    if (!passed)
        return 0;
    close(*(const int *)(const void *)CMSG_DATA(passed));
    return (passed->cmsg_len - CMSG_LEN(0)) / sizeof(int);
}

static void answer_passing(uint64_t id)
{
    Request *request;

    assert_int_equal(request_new(&request, t.listener, t.last, 0, id, 0), 0);
    request_answer_passing(request, MsgPutReply, &(MsgPutReply){.size = id}, STDIN_FILENO);
}

/* The first answer has none, for the peer does not read; the second one's would come before the first. */
TEST_WITH(a_descriptor_goes_with_no_other_answer, set_up, tear_down)
{
    static char chunk[50000];
    int fd = dial_ready();
    size_t n, passed = 0;

    SAY(fd, "\0\2hi");
    answer_passing(1);
    assert_int_equal(receive(fd, sizeof(chunk), &n), 1);
    for (int i = 0; i < 12; i++)
        assert_int_equal(listener_send(t.listener, t.last, chunk, sizeof(chunk)), 0);
    turn(SETTLE);
    answer_passing(2);
    do /* there is room again */
        passed += receive(fd, sizeof(chunk), &n);
    while (n > 0);
    answer_passing(3);
    do {
        turn(SETTLE);
        passed += receive(fd, sizeof(chunk), &n);
    } while (n > 0);
    assert_int_equal(passed, 0);
    answer_passing(4);
    assert_int_equal(receive(fd, sizeof(chunk), &n), 1);
}

TEST_WITH(the_file, set_up, tear_down)
{
    Listener *other = NULL;
    char path[200];
    struct stat st;

    assert_int_equal(stat(t.path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0600);
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(listener_new(&other, t.loop, path, &limits, &events, NULL), -ENAMETOOLONG);
    snprintf(path, sizeof(path), "%s/none/sock", t.directory);
    assert_int_equal(listener_new(&other, t.loop, path, &limits, &events, NULL), -ENOENT);
}
