#include "host/sessions.h"

#include <string.h>

bool session_path_valid(Text path)
{
    while (path.data && path.size <= LIMIT_SESSION_PATH) {
        const char *slash = memchr(path.data, '/', path.size);
        size_t n = slash ? (size_t)(slash - path.data) : path.size;

        if (!name_valid((Text){path.data, n}))
            return false;
        if (!slash)
            return true;
        path = (Text){slash + 1, path.size - n - 1};
    }
    return false;
}

Session *sessions_holder(Controller *controller, Text name)
{
    Session *session = NULL;

    if (name.data)
        HASH_FIND(by_name, controller->sessions, name.data, name.size, session);
    return session;
}

Session *sessions_find(Controller *controller, Text name)
{
    Session *session = sessions_holder(controller, name);

    return session && session->state != SESSION_CLOSING ? session : NULL;
}

void sessions_add(Controller *controller, Session *session)
{
    HASH_ADD_KEYPTR(by_name, controller->sessions, session->name, strlen(session->name), session);
    controller->session_count++;
}

void sessions_remove(Controller *controller, Session *session)
{
    if (!session->by_name.tbl) /* it was never added */
        return;
    HASH_DELETE(by_name, controller->sessions, session);
    controller->session_count--;
}
