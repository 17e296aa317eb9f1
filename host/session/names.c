#include "host/session/session.h"

#include <errno.h>
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

#define KEY_SIZE(name_size) (offsetof(SessionKey, name) + (name_size))

Session *sessions_holder(const Sessions *all, uid_t user, Text name)
{
    SessionKey key;
    Session *session = NULL;

    if (!name.data || name.size > LIMIT_SESSION_PATH)
        return NULL;
    memset(&key, 0, sizeof(key));
    key.user = user;
    memcpy(key.name, name.data, name.size);
    HASH_FIND(by_name, all->by_name, &key, KEY_SIZE(name.size), session);
    return session;
}

Session *sessions_find(const Sessions *all, uid_t user, Text name)
{
    Session *session = sessions_holder(all, user, name);

    return session && session->state != SESSION_CLOSING ? session : NULL;
}

int sessions_add(Session *session)
{
    Sessions *all = session->all;

    HASH_ADD_KEYPTR(by_name, all->by_name, &session->key, KEY_SIZE(strlen(session->name)), session);
    if (!session->by_name.tbl)
        return -ENOMEM;
    all->count++;
    return 0;
}

void sessions_remove(Session *session)
{
    if (!session->by_name.tbl)
        return;
    HASH_DELETE(by_name, session->all->by_name, session);
    session->all->count--;
}
