#include "host/session/fork.h"

#include "host/front/ops.h"

/* Finds the directories that the new sessions have as their data: those that are asked for, or that of the
 * origin. False where one is not open yet, or where its user cannot have it. */
static bool find_data(Front *front, Request *request, const msgpack_object_map *body, const MsgFork *asked,
                      const Session *origin, const RequestDirectory *ret[static LIMIT_FORKS])
{
    MsgOptions options = {.data = text_of(origin->sandbox->options.data)};

    for (uint32_t i = 0; i < value_count(&asked->data); i++) {
        options.data = value_text(&asked->data, i);
        if (!op_find_data_of(front, request, body, &options, &ret[i]))
            return false;
    }
    if (asked->data.array)
        return true;
    if (!op_find_data(front, request, body, options.data, &ret[0]))
        return false;
    for (uint32_t i = 1; i < value_count(&asked->names); i++)
        ret[i] = ret[0];
    return true;
}

static void begin(Front *front, Request *request, const msgpack_object_map *body, const MsgFork *asked,
                  Session *origin)
{
    const RequestDirectory *data[LIMIT_FORKS] = {0};

    if (find_data(front, request, body, asked, origin, data))
        session_fork(origin, request, asked, data);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgFork asked;
    Session *origin = op_decode_session(front, request, &asked, MsgFork, body);

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
        begin(front, request, body, &asked, origin);
}

const Op op_fork = {.kind = MSG_FORK, .handle = handle};
