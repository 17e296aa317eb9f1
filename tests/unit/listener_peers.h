/* Shared by tests of a Listener: one, and peers that say what no ZeroMQ library would. Both ends are in one
 * process and one thread: what one end has written is there for the other at its next turn, so that nothing
 * here waits for time. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/link/listener.h"
#include "tests/support/cmocka.h"

#define MAX_FRAME ((size_t)1000)
#define MAX_QUEUE ((size_t)1 << 20)
#define MAX_PEERS 3

#define GREETING                                                                                             \
    "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"         \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define READY_DEALER "\x04\x29\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0\0"
#define READY_ROUTER "\x04\x29\5READY\13Socket-Type\0\0\0\6ROUTER\10Identity\0\0\0\0"
#define SAID_FIRST   (64 + 43) /* bytes of the Listener's greeting and READY */

/* Literals end in a NUL that is not sent. */
#define SAY(fd, literal) say(fd, literal, sizeof(literal) - 1)

static struct {
    char directory[32], path[64];
    Loop *loop;
    Listener *listener;
    LoopIdle idle;
    int rounds;
    LoopTimer watchdog;
    int fds[MAX_PEERS + 1];

    size_t messages, multiparts, gone;
    Peer last, last_gone;
    char text[64]; /* of the last message */
    size_t size;
    PeerCredentials credentials;
    bool free_in_message, drop_in_message, echo;
} t;

static void on_message(void *userdata, Peer peer, const PeerCredentials *credentials, const uint8_t *bytes,
                       size_t size)
{
    t.messages++;
    t.last = peer;
    t.credentials = *credentials;
    if (t.free_in_message)
        t.listener = listener_free(t.listener);
    if (t.drop_in_message)
        listener_drop(t.listener, peer);
    if (t.echo)
        assert_int_equal(listener_send(t.listener, peer, bytes, size), 0);
    t.size = MIN(size, sizeof(t.text));
    if (size > 0)
        memcpy(t.text, bytes, t.size);
}

static void on_multipart(void *userdata, Peer peer)
{
    t.multiparts++;
    t.last = peer;
}

static void on_gone(void *userdata, Peer peer)
{
    t.gone++;
    t.last_gone = peer;
}

static const ListenerEvents events = {
    .on_message = on_message,
    .on_multipart = on_multipart,
    .on_gone = on_gone,
};

static ListenerLimits limits = {.frame = MAX_FRAME, .queue = MAX_QUEUE, .peers = MAX_PEERS};

static int set_up(void **state)
{
    memset(&t, 0, sizeof(t));
    for (size_t i = 0; i < ARRAY_SIZE(t.fds); i++)
        t.fds[i] = -1;
    strcpy(t.directory, "/tmp/limpet-link-XXXXXX");
    if (!mkdtemp(t.directory))
        return -1;
    snprintf(t.path, sizeof(t.path), "%s/sock", t.directory);
    if (loop_new(&t.loop) < 0)
        return -1;
    return listener_new(&t.listener, t.loop, t.path, &limits, &events, NULL);
}

static int tear_down(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(t.fds); i++)
        close_fd(&t.fds[i]);
    listener_free(t.listener);
    loop_timer_cancel(&t.watchdog);
    loop_idle_remove(&t.idle);
    loop_free(t.loop);
    unlink(t.path);
    rmdir(t.directory);
    return 0;
}

static void on_idle(LoopIdle *idle)
{
    if (t.rounds-- > 0)
        loop_idle_add(t.loop, idle, on_idle);
    else
        loop_stop(t.loop, 0);
}

/* Some turns of the loop, in which it never sleeps. */
static void turn(int rounds)
{
    t.rounds = rounds;
    loop_idle_add(t.loop, &t.idle, on_idle);
    assert_int_equal(loop_run(t.loop), 0);
}

#define SETTLE 8

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t i = 0;

    while (t.fds[i] >= 0)
        i++;
    t.fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    strcpy(address.sun_path, t.path);
    assert_int_equal(connect(t.fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
    return t.fds[i];
}

static void hang_up(int fd)
{
    for (size_t i = 0; i < ARRAY_SIZE(t.fds); i++)
        if (t.fds[i] == fd)
            close_fd(&t.fds[i]);
}

static void say(int fd, const void *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
    turn(SETTLE);
}

/* Connects a peer that has shaken hands, and reads what the Listener said to that. */
static int dial_ready(void)
{
    char said[256];
    int fd = dial();

    SAY(fd, GREETING READY_DEALER);
    assert_int_equal(recv(fd, said, sizeof(said), 0), SAID_FIRST);
    return fd;
}

static bool is_closed(int fd)
{
    char rest[4096];
    ssize_t n;

    while ((n = recv(fd, rest, sizeof(rest), 0)) > 0)
        ;
    return n == 0 || errno == ECONNRESET;
}

#define assert_text(literal)                                                                                 \
    do {                                                                                                     \
        assert_int_equal(t.size, sizeof(literal) - 1);                                                       \
        assert_memory_equal(t.text, literal, sizeof(literal) - 1);                                           \
    } while (0)
