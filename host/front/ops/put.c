#include <string.h>

#include "host/front/ops.h"

/* A client that has begun to put a file into a session, and may go before it has ended that. */
typedef struct ClientUpload {
    List link; /* Front.uploads */
    Peer peer;
    uid_t user;
    char id[]; /* of the session's directory */
} ClientUpload;

static bool is_known(const Front *front, const Request *request, const char *id)
{
    const ClientUpload *upload;

    list_foreach (upload, (List *)&front->uploads, ClientUpload, link)
        if (upload->peer == request->peer && strcmp(upload->id, id) == 0)
            return true;
    return false;
}

/* Without memory for it, what is broken off stays until the session ends. */
static void note_upload(Front *front, const Request *request, const char *id)
{
    ClientUpload *upload = is_known(front, request, id) ? NULL : malloc(sizeof(*upload) + strlen(id) + 1);

    if (!upload)
        return;
    upload->peer = request->peer;
    upload->user = request->user;
    strcpy(upload->id, id);
    list_append(&front->uploads, &upload->link);
}

void uploads_client_gone(Front *front, Peer peer)
{
    ClientUpload *upload;

    list_foreach (upload, &front->uploads, ClientUpload, link) {
        const JobUploads job = {.id = text_of(upload->id), .client = peer};

        if (upload->peer != peer)
            continue;
        keeper_ask(front->sandboxes->keeper, upload->user, JOB_FORGET_UPLOADS, &job, NULL, NULL);
        list_remove(&upload->link);
        free(upload);
    }
}

static void on_put(void *userdata, KeeperAnswer *answer)
{
    Request *request = userdata;

    if (answer->problem) {
        request_fail(request, answer->problem);
        return;
    }
    const MsgPutReply reply = {.size = answer->body->as_PUT.size};

    request_answer_passing(request, MsgPutReply, &reply, answer->descriptors[0]);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgPut put;
    Session *session;

    if (!op_decode(request, &put, MsgPut, body))
        return;
    session = op_session(front, request, put.session, put.instance);
    if (!session)
        return;
    if (!put.last)
        note_upload(front, request, session->sandbox->files.id);
    const JobPut job = {
        .id = text_of(session->sandbox->files.id),
        .path = put.path,
        .client = request->peer,
        .offset = put.offset,
        .data = put.data,
        .last = put.last,
        .give = sandboxes_isolate(front->sandboxes),
        .descriptor = put.descriptor && !request->remote,
    };
    if (keeper_ask(front->sandboxes->keeper, request->user, JOB_PUT, &job, on_put, request) < 0)
        request_fail_text(request, ERR_INTERNAL, "the file cannot be moved now: out of memory");
}

const Op op_put = {.kind = MSG_PUT, .handle = handle};
