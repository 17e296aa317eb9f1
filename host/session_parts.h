/* What the parts of a session share among themselves: session.c (life), session_calls.c (one call after the
 * other), session_guest.c (messages of the supervisor). Nobody else includes this. */
#pragma once

#include "host/session.h"

/* session.c */
void session_become_ready(Session *session); /* when both the container and the guest are */

/* session_calls.c */
void session_rest(Session *session);    /* nothing runs: the ttl counts, the next call in the queue starts */
void session_publish(Session *session); /* the running call has ended: its artifacts, then its record */
void session_fail_call(Session *session, const Problem *problem); /* the running one */
void session_end_calls(Session *session, const char *reason);

/* session_guest.c */
extern const GuestEvents session_guest_events;
int session_send(Session *session, MessageKind kind, uint64_t id); /* a message without fields */
