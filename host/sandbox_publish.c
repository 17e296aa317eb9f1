/* What a call that has ended left in artifacts is published; then its record can be made. */
#include <errno.h>

#include "host/envelope.h"
#include "host/record.h"
#include "host/sandbox_parts.h"

typedef struct Publication {
    Work work;
    Sandbox *sandbox;   /* not to be used once the work is abandoned */
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

static void finish(Publication *publication)
{
    const Buf *kept = &publication->executed;
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    MsgExecuted executed;

    if (message_decode(&message, buf_head(kept), kept->size, &problem) < 0 ||
        record_decode(&executed, &message.body, &problem) < 0)
        sandbox_fail_call(publication->sandbox, &problem);
    else
        sandbox_finish_call(publication->sandbox, &executed, publication->list);
    publication_free(publication);
}

/* Adds to the list. False when nobody is interested any more: it is freed then. */
static bool take_list(Publication *publication, ArtifactList *list)
{
    publication->list = artifact_list_merge(publication->list, list);
    if (publication->work.turn)
        return true;
    publication_free(publication);
    return false;
}

static void on_work_published(void *userdata, ArtifactList *list)
{
    if (take_list(userdata, list))
        finish(userdata);
}

/* Whether there is something, and it is being published. */
static bool publish(Publication *publication, Artifacts *artifacts, ArtifactsDone done)
{
    return artifacts && artifacts_dirty(artifacts) &&
           artifacts_publish(artifacts, publication->sandbox->controller->worker, done, publication) == 0;
}

static void publish_work(Publication *publication)
{
    if (!publish(publication, publication->sandbox->work_artifacts, on_work_published))
        finish(publication);
}

static void on_published(void *userdata, ArtifactList *list)
{
    if (take_list(userdata, list))
        publish_work(userdata);
}

static bool leaves_artifacts(const Sandbox *sandbox)
{
    return artifacts_dirty(sandbox->artifacts) ||
           (sandbox->work_artifacts && artifacts_dirty(sandbox->work_artifacts));
}

static Publication *publication_new(Sandbox *sandbox, const Message *message)
{
    Publication *publication = calloc(1, sizeof(*publication));

    if (!publication)
        return NULL;
    publication->sandbox = sandbox;
    if (envelope_write(&publication->executed, message->kind, message->id, message->encoded) < 0) {
        publication_free(publication);
        return NULL;
    }
    work_begin(&publication->work, sandbox->running);
    return publication;
}

void sandbox_call_executed(Sandbox *sandbox, const Message *message, const MsgExecuted *executed)
{
    Problem problem = PROBLEM_NULL;
    Publication *publication;

    if (!leaves_artifacts(sandbox)) {
        sandbox_finish_call(sandbox, executed, NULL);
        return;
    }
    publication = publication_new(sandbox, message);
    if (!publication) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        sandbox_fail_call(sandbox, &problem);
    } else if (!publish(publication, sandbox->artifacts, on_published)) {
        publish_work(publication);
    }
}
