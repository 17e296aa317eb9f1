#include "host/session/fork.h"

#include "host/front/ops.h"

/* Finds the directories that the new sessions have as their data. False, and the request answered, where
 * there is one that its user cannot have. */
static bool find_data(Front *front, Request *request, const MsgFork *asked, char *ret[static LIMIT_FORKS])
{
    for (uint32_t i = 0; i < value_count(&asked->data); i++) {
        MsgOptions options = {.data = value_text(&asked->data, i)};

        if (!op_find_data(front, request, &options, &ret[i]))
            return false;
    }
    return true;
}

static void begin(Front *front, Request *request, const MsgFork *asked, Session *origin)
{
    char *data[LIMIT_FORKS] = {0};

    if (find_data(front, request, asked, data))
        session_fork(origin, request, asked, data);
    for (size_t i = 0; i < ARRAY_SIZE(data); i++)
        free(data[i]);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgFork asked;
    Session *origin;

    if (!op_decode(request, &asked, MsgFork, body))
        return;
    origin = op_session(front, request, asked.session, asked.instance);
    if (!origin)
        return;
    if (value_count(&asked.names) == 0)
        request_fail_text(request, ERR_BAD_REQUEST, "`names` has no name: name each session to be made");
    else if (asked.data.array && value_count(&asked.data) != value_count(&asked.names))
        request_fail_text(request, ERR_BAD_REQUEST, "`data` has one directory for each of `names`");
    else if (session_is_unsettled(origin))
        request_fail_text(request, ERR_BUSY, "the session '%s' is being restored; try again then",
                          origin->name);
    else
        begin(front, request, &asked, origin);
}

const Op op_fork = {.kind = MSG_FORK, .handle = handle};
