/* The supervisor's view of the controller: its messages become orders to the supervisor, and the supervisor's
 * answers become messages. */
#pragma once

#include "guest/supervisor/link.h"

typedef struct Supervisor Supervisor;

typedef struct Controller {
    Supervisor *supervisor;
    Link link;
    bool welcomed;    /* on this connection */
    LoopTimer orphan; /* set while not */
} Controller;

/* Starts to connect. 0 or a negative errno, logged. */
int controller_init(Controller *controller, Supervisor *supervisor);
void controller_deinit(Controller *controller);

/* Sends supervisor->record, when there is one; while no controller has welcomed us the next to do so gets it.
 */
void controller_send_record(Controller *controller);

/* An error: `what` went wrong, and `why`. */
void controller_answer(Controller *controller, uint64_t id, ErrorCode code, const char *what,
                       const char *why);

void controller_answer_problem(Controller *controller, uint64_t id, const Problem *problem);

/* A reply that is a `type`. 0, or as link_say(). */
#define controller_reply(controller, id, type, from) link_say(&(controller)->link, MSG_REPLY, id, type, from)
