/* Sessions that a client is giving what was saved of others. Until they have it they are as long as its
 * connection is, nobody else gets them, and no later controller takes them over: all of it is restored, or
 * none, whoever dies meanwhile. */
#include "host/session/internal.h"

bool session_is_unsettled(const Session *session)
{
    return session->state == SESSION_CLOSING || (session->branch == 0 && session->sandbox->restorer != 0);
}

void session_made_whole(Session *session)
{
    Sandbox *sandbox = session->sandbox;

    if (session->branch != 0 || sandbox->restorer == 0)
        return;
    sandbox->restorer = 0;
    session->all->events->ready(session);
    session_tell_waiters(&session->waiters);
}

/* A trunk that does not end yet, or NULL. */
static Session *find_restored_by(const Sessions *all, Peer restorer)
{
    Session *session, *next;

    HASH_ITER (by_name, all->by_name, session, next)
        if (session->branch == 0 && session->state != SESSION_CLOSING &&
            session->sandbox->restorer == restorer)
            return session;
    return NULL;
}

/* With each others may be gone at once. */
void sessions_restorer_gone(Sessions *all, Peer restorer)
{
    Session *session;

    while ((session = find_restored_by(all, restorer)))
        session_close(session, NULL, "the connection over which it was restored has ended");
}
