/* Publishing the artifacts of a call that has ended; then its record can be made. */
#include "host/link/envelope.h"
#include "host/call/record.h"
#include "host/call/call.h"

typedef struct Publication {
    Work work;          /* of the call's turn */
    Buf executed;       /* as the supervisor said it */
    ArtifactList *list; /* of what is published already */
} Publication;

static void publication_free(Publication *publication)
{
    work_end(&publication->work);
    buf_deinit(&publication->executed);
    artifact_list_free(publication->list);
    free(publication);
}

/* The call that it is of; NULL once that has ended. */
static Call *call_of(const Publication *publication)
{
    Turn *turn = publication->work.turn;

    return turn ? container_of(turn, Call, turn) : NULL;
}

/* The call may be freed by what ends it, and abandons its work then. */
static void finish(Publication *publication)
{
    const Buf *kept = &publication->executed;
    Call *call = call_of(publication);
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    MsgExecuted executed;

    if (message_decode(&message, buf_head(kept), kept->size, &problem) < 0 ||
        record_decode(&executed, &message.body, &problem) < 0)
        call_finish_failed(call, &problem);
    else
        call_finish(call, &executed, publication->list);
    publication_free(publication);
}

/* Adds to the list. False when nobody is interested any more: it is freed then. */
static bool take_list(Publication *publication, ArtifactList *list)
{
    publication->list = artifact_list_merge(publication->list, list);
    if (call_of(publication))
        return true;
    publication_free(publication);
    return false;
}

static void on_work_published(void *userdata, ArtifactList *list)
{
    if (take_list(userdata, list))
        finish(userdata);
}

/* Begins to publish a place. False when there is nothing in it, or it could not begin. */
static bool publish(Publication *publication, FilesPlace place, FilesPublished *done)
{
    SessionFiles *files = &publication->work.turn->sandbox->files;

    return session_files_dirty(files, place) && session_files_publish(files, place, done, publication) == 0;
}

static void publish_work(Publication *publication)
{
    if (!publish(publication, FILES_WORK, on_work_published))
        finish(publication);
}

static void on_published(void *userdata, ArtifactList *list)
{
    if (take_list(userdata, list))
        publish_work(userdata);
}

static bool leaves_artifacts(const Sandbox *sandbox)
{
    return session_files_dirty(&sandbox->files, FILES_SESSION) ||
           (sandbox->ephemeral && session_files_dirty(&sandbox->files, FILES_WORK));
}

static Publication *publication_new(Call *call, const Message *message)
{
    Publication *publication = calloc(1, sizeof(*publication));

    if (!publication)
        return NULL;
    if (envelope_write(&publication->executed, message->kind, message->id, message->encoded) < 0) {
        publication_free(publication);
        return NULL;
    }
    work_begin(&publication->work, &call->turn);
    return publication;
}

void call_publish(Call *call, const Message *message, const MsgExecuted *executed)
{
    const Sandbox *sandbox = call->turn.sandbox;
    Problem problem = PROBLEM_NULL;
    Publication *publication;

    if (!leaves_artifacts(sandbox)) {
        call_finish(call, executed, NULL);
        return;
    }
    publication = publication_new(call, message);
    if (!publication) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        call_finish_failed(call, &problem);
    } else if (!publish(publication, FILES_SESSION, on_published)) {
        publish_work(publication);
    }
}
