/* The link: a connection to the controller, a unix socket that speaks ZMTP. It is made again, with growing
 * pauses, whenever it is lost. What was not yet sent is lost with it, so the owner says again what matters.
 */
#pragma once

#include "proto/base/loop.h"
#include "proto/schema.h"
#include "proto/zmtp_socket.h"

typedef struct Link Link;

struct Link {
    Loop *loop;
    char session[LIMIT_SESSION_NAME + 1];
    uint8_t secret[GUEST_SECRET_SIZE];

    ZmtpSocket socket;
    LoopTimer retry;
    uint64_t pause; /* nanoseconds before the next attempt */
    bool accepted;  /* the controller has welcomed us on this connection */

    void (*on_open)(Link *link); /* the connection is there, and messages may be sent */
    void (*on_message)(Link *link, const Message *message);
    void (*on_lost)(Link *link);
};

/* Reads `session` and `secret` from the current directory, which is the link directory for good: a socket in
 * it can be reached however long its path is. 0, or a negative errno after a log line. */
int link_init(Link *link, Loop *loop);
void link_deinit(Link *link);

/* Connects now, or as soon as the controller listens. */
void link_connect(Link *link);

/* The controller has welcomed us. After a loss the pauses begin small again. */
void link_accepted(Link *link);

/* Sends a message whose body is a `type`. 0, -ENOTCONN when nobody would get it, or the first error of
 * writing; nothing is sent then. */
#define link_say(link, kind, id, type, from) link_write(link, kind, id, SCHEMA(type), (const type *){from})
int link_write(Link *link, MessageKind kind, uint64_t id, const Schema *schema, const void *body);

/* Sends a reply that is a `type`. 0, or as link_say(). */
#define link_reply(link, id, type, from) link_say(link, MSG_REPLY, id, type, from)

/* Passes a copy of a descriptor beside what was said last. Where that cannot be, that goes alone. */
void link_pass(Link *link, int fd);

/* The oldest descriptor that the controller has passed and nobody has taken, which is the caller's; or -1. */
int link_take_passed(Link *link);

/* Sends an error in place of the reply: `what` went wrong, and `why`. */
void link_refuse(Link *link, uint64_t id, ErrorCode code, const char *what, const char *why);
void link_refuse_problem(Link *link, uint64_t id, const Problem *problem);

/* Sends an envelope that is already encoded. */
int link_send(Link *link, const Buf *envelope);

/* Returns whether the controller keeps up. Events are not worth their memory when it does not. */
bool link_has_room(const Link *link);

/* OutputSubscription: whether the controller wants the output of a call as it comes, and how much it takes
 * now. */

typedef struct OutputSubscription {
    bool wanted;
    bool active; /* a controller takes what was wanted */
    unsigned credit;
} OutputSubscription;

void subscription_begin(OutputSubscription *subscription, bool wanted);

/* Sends a piece of stream 1 or 2 of the call `id` as an event, where there is credit. */
void subscription_output(OutputSubscription *subscription, Link *link, uint64_t id, unsigned stream,
                         const uint8_t *bytes, size_t n);

/* The controller is gone, and with it events and credit that were under way. The first credit of the next one
 * resumes. */
void subscription_lost(OutputSubscription *subscription);
void subscription_credit(OutputSubscription *subscription, uint64_t count);

/* Returns whether more is to be read. Where nobody takes the output the writer waits. */
bool subscription_takes(const OutputSubscription *subscription);
