/* Admission of peers, which libzmq asks for once a handshake shows that the peer has its key: RFC 27. */
#include <errno.h>
#include <string.h>

#include "host/net/process/internal.h"

#define ENDPOINT "inproc://zeromq.zap.01"
/* Frames: version, number, domain, address, routing id, mechanism, and the key. */
#define FRAMES 7

int zap_open(Door *door)
{
    const int no_limit = 0;

    door->zap = zmq_socket(door->context, ZMQ_REP);
    if (!door->zap || zmq_setsockopt(door->zap, ZMQ_RCVHWM, &no_limit, sizeof(no_limit)) < 0 ||
        zmq_bind(door->zap, ENDPOINT) < 0)
        return -errno;
    return 0;
}

typedef struct Asked {
    zmq_msg_t frames[FRAMES];
    size_t n;
} Asked;

static void asked_deinit(Asked *asked)
{
    for (size_t i = 0; i < FRAMES; i++)
        zmq_msg_close(&asked->frames[i]);
}

/* False: nothing was asked. */
static bool take_question(Door *door, Asked *ret)
{
    bool more = true;

    for (size_t i = 0; i < FRAMES; i++)
        zmq_msg_init(&ret->frames[i]);
    for (ret->n = 0; more && ret->n < FRAMES; ret->n++) {
        if (zmq_msg_recv(&ret->frames[ret->n], door->zap, ZMQ_DONTWAIT) < 0)
            return false;
        more = zmq_msg_more(&ret->frames[ret->n]);
    }
    return true;
}

/* Why not, or NULL. */
static const char *refusal(const Door *door, const char *key)
{
    const AuthorizedKey *authorized = authorized_find(&door->keys, key);

    if (!authorized)
        return "the key is not authorized";
    return lines_of(door, key) >= authorized->connections ? "the key has as many connections as it may"
                                                          : NULL;
}

static void reply(Door *door, const void *bytes, size_t size, bool more)
{
    zmq_send(door->zap, bytes, size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
}

static void say(Door *door, Asked *asked, const char *status, const char *text, const char *user)
{
    reply(door, "1.0", 3, true);
    reply(door, zmq_msg_data(&asked->frames[1]), zmq_msg_size(&asked->frames[1]), true);
    reply(door, status, 3, true);
    reply(door, text, strlen(text), true);
    reply(door, user, strlen(user), true);
    reply(door, "", 0, false);
}

static void answer(Door *door, Asked *asked)
{
    char key[Z85_KEY_SIZE + 1], address[65] = "";
    const char *why;

    if (asked->n != FRAMES || zmq_msg_size(&asked->frames[6]) != 32) {
        say(door, asked, "400", "not CURVE", "");
        return;
    }
    z85_encode_key(key, zmq_msg_data(&asked->frames[6]));
    why = refusal(door, key);
    memcpy(address, zmq_msg_data(&asked->frames[3]),
           MIN(zmq_msg_size(&asked->frames[3]), sizeof(address) - 1));
    if (why)
        door_complain(door, why, address);
    say(door, asked, why ? "400" : "200", why ? why : "OK", why ? "" : key);
}

void zap_answer(Door *door)
{
    for (bool there = true; there;) {
        Asked asked _cleanup_(asked_deinit);

        there = take_question(door, &asked);
        if (there)
            answer(door, &asked);
    }
}
