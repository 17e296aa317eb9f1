/* Files of a session: files, get, put, artifact. */
#include <errno.h>
#include <string.h>

#include "host/files/names.h"
#include "host/front/ops.h"
#include "proto/file_ask.h"

/* ---- files ----
 *
 * files: what is asked about them goes to the supervisor, beside the calls, and its answer to the client. */

typedef struct FilesQuery {
    Query query;
    FileOp op;
} FilesQuery;

static FilesQuery *of(GuestRequest *to_guest)
{
    return container_of(to_guest, FilesQuery, query.to_guest);
}

/* ---- what comes of it ---- */

static int on_reply(FilesQuery *files, const Message *message, Problem *problem)
{
    const Schema *schema = file_reply_schema(files->op);
    FileReply reply;
    int r = file_reply_decode(&reply, files->op, &message->body, problem);

    if (r == 0)
        request_reply_with(query_finish(&files->query), schema, &reply);
    return r;
}

/* Returns advice on an error; "" where the kernel's words say all. */
static const char *advice(int error)
{
    switch (error) {
    case EIO:
        return "; the sandbox's process for files may have been killed: try again";
    case EXDEV:
        return "; it lies on another file system, or a link leads there: copy it, and remove the old one";
    case ENXIO:
        return "; only regular files can be read";
    case ESTALE:
        return "; begin anew, for it has changed, or too much was begun at once";
    case EOVERFLOW:
        return "; events were lost: look at the directory, and watch it again";
    case ENOSPC:
    case EDQUOT:
        return "; remove files, or open the session with more `disk` or `files`";
    default:
        return "";
    }
}

static int on_failed(FilesQuery *files, const Message *message, Problem *problem)
{
    MsgFileFailed said;
    Problem why = PROBLEM_NULL;
    char display[256] = "";
    int r = body_decode(&said, MsgFileFailed, &message->body, problem);
    const char *symbol;

    if (r < 0)
        return r;
    _cleanup_(freep) char *path = text_dup(said.path);
    symbol = strerrorname_np((int)said.error);
    if (path)
        path_display(display, sizeof(display), path);
    problem_set(&why, ERR_FILE_FAILED, "%s%s%s%s%s", path ? "'" : "", display, path ? "': " : "",
                symbol ? strerror((int)said.error) : "Unknown error", advice((int)said.error));
    request_fail_file(query_finish(&files->query), &why, symbol ? symbol : "EIO", said.path);
    return 0;
}

/* The supervisor itself refuses. */
static int on_refused(FilesQuery *files, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    MsgError error;
    int r = body_decode(&error, MsgError, &message->body, problem);

    if (r < 0)
        return r;
    problem_set(&why, error.number == ERR_BUSY ? ERR_BUSY : ERR_INTERNAL, "the session's supervisor: %.*s",
                (int)error.message.size, error.message.data);
    query_fail(&files->query.to_guest, &why);
    return 0;
}

static int on_message(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_REPLY:
        return on_reply(of(to_guest), message, problem);
    case MSG_FILE_FAILED:
        return on_failed(of(to_guest), message, problem);
    case MSG_ERROR:
        return on_refused(of(to_guest), message, problem);
    default:
        return query_unexpected(message, problem);
    }
}

static const GuestRequestOps files_ops = {.message = on_message, .fail = query_fail};

/* ---- what is asked ---- */

static void begin_files(Request *request, const Session *session, const MsgFileAsk *ask, FileOp op)
{
    FilesQuery *files = query_new(sizeof(*files), &files_ops, op == FILE_EVENTS ? LANE_WATCH : LANE_SHORT,
                                  MSG_FILES, SCHEMA(MsgFileAsk), ask, request);

    if (!files)
        return;
    files->op = op;
    query_begin(&files->query, session,
                "too much is asked about files of this session at once; wait for answers");
}

/* ---- /data ----
 *
 * /data is read-only in a container. Files that clients put there do not pass through it. */

static bool has_data(Front *front, Request *request, const Session *session)
{
    if (!sandboxes_isolate(front->sandboxes))
        request_fail_text(request, ERR_BAD_REQUEST, "the engine local has no /data");
    else if (front->sandboxes->engine->ops->single)
        request_fail_text(request, ERR_BAD_REQUEST,
                          "a session in a pod has no /data; put files below /session");
    else if (session->sandbox->options.data)
        request_fail_text(request, ERR_BAD_REQUEST,
                          "/data is a directory of the controller's machine, which the session only reads");
    else
        return true;
    return false;
}

static void on_stored(void *userdata, FileServiceAnswer *answer)
{
    Request *request = userdata;

    if (answer->problem)
        request_fail(request, answer->problem);
    else
        request_answer(request, MsgNothing, &(MsgNothing){0});
}

static void begin_store(Front *front, Request *request, const Session *session, const MsgFileStore *store)
{
    const JobStore job = {
        .id = text_of(session->sandbox->files.id),
        .path = store->path,
        .entries = store->entries,
    };

    if (has_data(front, request, session) && file_service_ask(front->sandboxes->file_service, request->user,
                                                              JOB_STORE, &job, on_stored, request) < 0)
        request_fail_text(request, ERR_INTERNAL, "the files cannot be moved now: out of memory");
}

/* ---- what is asked of which ---- */

static void handle_files(Front *front, Request *request, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    Session *session;
    MsgFiles said;
    int op;

    if (!op_decode(request, &said, MsgFiles, body))
        return;
    op = file_ask_op(&said.ask, &problem);
    if (op < 0) {
        request_fail(request, &problem);
        return;
    }
    session = op_session(front, request, said.session, said.instance);
    if (session && op == FILE_STORE && file_is_data(said.ask.store.path))
        begin_store(front, request, session, &said.ask.store);
    else if (session)
        begin_files(request, session, &said.ask, (FileOp)op);
}

const Op op_files = {.kind = MSG_FILES, .handle = handle_files};

/* ---- get ---- */

static void on_got(void *userdata, FileServiceAnswer *answer)
{
    Piece *piece = userdata;

    if (answer->problem) {
        request_fail(piece->request, answer->problem);
    } else {
        const MsgGetReply reply = {.data = answer->body->as_GET.data, .size = answer->body->as_GET.size};

        request_answer_passing(piece->request, MsgGetReply, &reply,
                               answer->descriptors.n > 0 ? answer->descriptors.fd[0] : -1);
    }
    piece_end(piece);
}

static void fetch(Front *front, Request *request, const msgpack_object_map *body, JobKind kind,
                  const void *job)
{
    Piece *piece = piece_begin(front, request, body);

    if (!piece ||
        file_service_ask(front->sandboxes->file_service, request->user, kind, job, on_got, piece) == 0)
        return;
    request_fail_text(request, ERR_INTERNAL, "the file cannot be read now: out of memory");
    piece_end(piece);
}

static void handle_get(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgGet get;
    Session *session = op_decode_session(front, request, &get, MsgGet, body);

    if (!session)
        return;
    const JobGet job = {
        .id = text_of(session->sandbox->files.id),
        .path = get.path,
        .offset = uint_or(get.offset, 0),
        .size = MIN(get.size, LIMIT_FILE_CHUNK),
        .descriptor = get.descriptor && !request->remote,
    };
    fetch(front, request, body, JOB_GET, &job);
}

const Op op_get = {.kind = MSG_GET, .handle = handle_get};

/* ---- put ---- */

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
        file_service_ask(front->sandboxes->file_service, upload->user, JOB_FORGET_UPLOADS, &job, NULL, NULL);
        list_remove(&upload->link);
        free(upload);
    }
}

static void on_put(void *userdata, FileServiceAnswer *answer)
{
    Request *request = userdata;

    if (answer->problem) {
        request_fail(request, answer->problem);
        return;
    }
    const MsgPutReply reply = {.size = answer->body->as_PUT.size};

    request_answer_passing(request, MsgPutReply, &reply,
                           answer->descriptors.n > 0 ? answer->descriptors.fd[0] : -1);
}

static void handle_put(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgPut put;
    Session *session = op_decode_session(front, request, &put, MsgPut, body);

    if (!session || (file_is_data(put.path) && !has_data(front, request, session)))
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
    if (file_service_ask(front->sandboxes->file_service, request->user, JOB_PUT, &job, on_put, request) < 0)
        request_fail_text(request, ERR_INTERNAL, "the file cannot be moved now: out of memory");
}

const Op op_put = {.kind = MSG_PUT, .handle = handle_put};

/* ---- artifact ----
 *
 * artifact: a piece of a file that a call has published, for a client that cannot open the controller's copy.
 */

static Text text_in(const msgpack_object *object)
{
    if (object->type == MSGPACK_OBJECT_STR)
        return (Text){object->via.str.ptr, object->via.str.size};
    return object->type == MSGPACK_OBJECT_BIN ? (Text){object->via.bin.ptr, object->via.bin.size} : (Text){0};
}

static Text find_in(const msgpack_object *artifacts, Text path)
{
    for (uint32_t i = 0; artifacts && artifacts->type == MSGPACK_OBJECT_MAP && i < artifacts->via.map.size;
         i++) {
        Text key = text_in(&artifacts->via.map.ptr[i].key);

        if (key.data && key.size == path.size && memcmp(key.data, path.data, key.size) == 0)
            return text_in(&artifacts->via.map.ptr[i].val);
    }
    return (Text){0};
}

/* Finds the path of the copy that the record names, below the state directory. Points into the record; no
 * data when it is not there. */
static Text find_copy(const Front *front, const msgpack_object *record, Text path)
{
    size_t above = strlen(front->paths->state_dir) + 1;
    Text copy = {0};

    if (record->type == MSGPACK_OBJECT_MAP)
        copy = find_in(map_find(&record->via.map, "artifacts"), path);
    if (copy.size <= above || memcmp(copy.data, front->paths->state_dir, above - 1) != 0)
        return (Text){0};
    return (Text){copy.data + above, copy.size - above};
}

static void read_copy(Front *front, Request *request, const msgpack_object_map *body,
                      const MsgPublished *asked, Text copy)
{
    const JobReadPublished job = {
        .path = copy, .offset = asked->offset, .size = MIN(asked->size, LIMIT_FILE_CHUNK)};

    if (!copy.data)
        request_fail_text(request, ERR_NO_SUCH_FILE, "the call has published no file of this path");
    else
        fetch(front, request, body, JOB_READ_PUBLISHED, &job);
}

static void handle_artifact(Front *front, Request *request, const msgpack_object_map *body)
{
    char id[LIMIT_RUN_ID + 1] = "";
    msgpack_unpacked record;
    MsgPublished asked;
    const Call *call;

    if (!op_decode(request, &asked, MsgPublished, body))
        return;
    memcpy(id, asked.run_id.data, asked.run_id.size);
    call = call_find(front->calls, request->user, id);
    if (!call) {
        request_fail_text(request, ERR_NO_SUCH_RUN, "no call with run_id '%s' is running or stored", id);
        return;
    }
    msgpack_unpacked_init(&record);
    if (call->record.size > 0)
        msgpack_unpack_next(&record, (const char *)buf_head(&call->record), call->record.size, NULL);
    read_copy(front, request, body, &asked, find_copy(front, &record.data, asked.path));
    msgpack_unpacked_destroy(&record);
}

const Op op_artifact = {.kind = MSG_ARTIFACT, .handle = handle_artifact};
