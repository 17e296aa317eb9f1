/* files: what is asked about them goes to the supervisor, beside the calls, and its answer to the client. */
#include <errno.h>
#include <string.h>

#include "host/files/names.h"
#include "host/front/ops.h"
#include "host/sandbox/errand.h"
#include "proto/file_ask.h"

typedef struct FilesErrand {
    Errand errand;
    FileOp op;
    Request *request;
} FilesErrand;

static FilesErrand *of(Errand *errand)
{
    return container_of(errand, FilesErrand, errand);
}

/* Takes the request out of an errand that is over. */
static Request *finish(FilesErrand *files)
{
    Request *request = files->request;

    errand_over(&files->errand);
    free(files);
    return request;
}

/* ---- what comes of it ---- */

static void failed(Errand *errand, const Problem *problem)
{
    request_fail(finish(of(errand)), problem);
}

static int on_reply(FilesErrand *files, const Message *message, Problem *problem)
{
    const Schema *schema = file_reply_schema(files->op);
    FileReply reply;
    int r = file_reply_decode(&reply, files->op, &message->body, problem);

    if (r == 0)
        request_reply_with(finish(files), schema, &reply);
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

static int on_failed(FilesErrand *files, const Message *message, Problem *problem)
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
    request_fail_file(finish(files), &why, symbol ? symbol : "EIO", said.path);
    return 0;
}

/* The supervisor itself refuses. */
static int on_refused(FilesErrand *files, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    MsgError error;
    int r = body_decode(&error, MsgError, &message->body, problem);

    if (r < 0)
        return r;
    problem_set(&why, error.number == ERR_BUSY ? ERR_BUSY : ERR_INTERNAL, "the session's supervisor: %.*s",
                (int)error.message.size, error.message.data);
    failed(&files->errand, &why);
    return 0;
}

static int answer(Errand *errand, const Message *message, Problem *problem)
{
    switch (message->kind) {
    case MSG_REPLY:
        return on_reply(of(errand), message, problem);
    case MSG_FILE_FAILED:
        return on_failed(of(errand), message, problem);
    case MSG_ERROR:
        return on_refused(of(errand), message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
    }
}

static const ErrandOps errand_ops = {.answer = answer, .failed = failed};

/* ---- what is asked ---- */

static void begin(Request *request, Session *session, const MsgFileAsk *ask, FileOp op)
{
    FilesErrand *files = calloc(1, sizeof(*files));

    if (!files || body_encode(&files->errand.body, MsgFileAsk, ask) < 0) {
        free(files);
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    files->errand.ops = &errand_ops;
    files->errand.kind = MSG_FILES;
    files->errand.lane = op == FILE_EVENTS ? ERRAND_WATCH : ERRAND_SHORT;
    files->op = op;
    files->request = request;
    if (errand_begin(&files->errand, session->sandbox) == 0)
        return;
    buf_deinit(&files->errand.body);
    free(files);
    request_fail_text(request, ERR_BUSY,
                      "too much is asked about files of this session at once; wait for answers");
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
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
    if (session)
        begin(request, session, &said.ask, (FileOp)op);
}

const Op op_files = {.kind = MSG_FILES, .handle = handle};
