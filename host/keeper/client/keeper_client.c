#include "host/keeper/client/keeper_client.h"

#include <errno.h>

#include "host/keeper/keeper.h"
#include "proto/base/list.h"

struct KeeperClient {
    Keeper *keeper;
    List asks; /* without an answer so far, in the order they were made */
    uint64_t last_id;
};

typedef struct KeeperAsk {
    List link;
    uint64_t id;
    const JobType *type;
    KeeperDone *done;
    void *userdata;
    Problem *problem; /* of a call, which waits; NULL otherwise */
} KeeperAsk;

/* ---- what comes back ---- */

static KeeperAsk *take_ask(KeeperClient *client, uint64_t id)
{
    KeeperAsk *ask;

    list_foreach (ask, &client->asks, KeeperAsk, link)
        if (ask->id == id) {
            list_remove(&ask->link);
            return ask;
        }
    return NULL;
}

static int decode_failed(const Message *message, Problem *ret)
{
    JobFailed failed;
    int r = body_decode(&failed, JobFailed, &message->body, ret);

    if (r == 0)
        problem_set(ret, (ErrorCode)failed.code, "%.*s", (int)failed.text.size, failed.text.data);
    return -EPROTO;
}

/* 0, or -EPROTO with the problem set: that of the keeper, or one with its answer. */
static int decode(JobAnswer *ret, const JobType *type, Message *message, const Buf *bytes, Problem *problem)
{
    if (bytes->size == 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (message_decode(message, buf_head(bytes), bytes->size, problem) < 0)
        return -EPROTO;
    if ((JobKind)message->kind == JOB_FAILED)
        return decode_failed(message, problem);
    return schema_decode(ret, type->answer(), &message->body, problem);
}

static void tell(const KeeperAsk *ask, const Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    JobAnswer body;
    bool failed = decode(&body, ask->type, &message, bytes, &problem) < 0;
    KeeperAnswer answer = {
        .problem = failed ? &problem : NULL,
        .body = failed ? NULL : &body,
    };

    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        answer.descriptors[i] = descriptors[i];
    if (ask->problem && failed)
        *ask->problem = problem;
    else if (ask->done)
        ask->done(ask->userdata, &answer);
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        closep(&answer.descriptors[i]);
}

static void on_answer(void *userdata, uint64_t id, Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    KeeperAsk *ask = take_ask(userdata, id);

    tell(ask, bytes, descriptors);
    buf_deinit(bytes);
    free(ask);
}

/* ---- asking ---- */

static KeeperAsk *add_ask(KeeperClient *client, const JobType *type, KeeperDone *done, void *userdata,
                          Problem *problem)
{
    KeeperAsk *ask = calloc(1, sizeof(*ask));

    if (!ask)
        return NULL;
    *ask = (KeeperAsk){
        .id = ++client->last_id, .type = type, .done = done, .userdata = userdata, .problem = problem};
    list_append(&client->asks, &ask->link);
    return ask;
}

/* 0, or a negative errno with the ask freed. */
static int send_ask(KeeperClient *client, KeeperAsk *ask, JobKind kind, const void *request)
{
    Problem problem = PROBLEM_NULL;
    Buf bytes = BUF_NULL;
    uint64_t id = ask->id;
    int r = message_append(&bytes, (MessageKind)kind, id, ask->type->request(), request);

    if (r == 0 && keeper_take(client->keeper, &bytes, &problem) < 0)
        r = problem.code == ERR_INTERNAL ? -ENOMEM : -EINVAL;
    if (r < 0)
        free(take_ask(client, id));
    buf_deinit(&bytes);
    return r;
}

int keeper_ask(KeeperClient *client, JobKind kind, const void *request, KeeperDone *done, void *userdata)
{
    KeeperAsk *ask = add_ask(client, job_type(kind), done, userdata, NULL);

    return ask ? send_ask(client, ask, kind, request) : -ENOMEM;
}

int keeper_call(KeeperClient *client, JobKind kind, const void *request, KeeperDone *done, void *userdata,
                Problem *problem)
{
    Problem failure = PROBLEM_NULL;
    KeeperAsk *ask = add_ask(client, job_type(kind), done, userdata, &failure);
    int r = ask ? send_ask(client, ask, kind, request) : -ENOMEM;

    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (failure.code == ERR_NONE)
        return 0;
    *problem = failure;
    return -EPROTO;
}

/* ---- its life ---- */

int keeper_client_new(KeeperClient **ret, Loop *loop, const char *state_dir, bool has_disks)
{
    KeeperClient *client _cleanup_(keeper_client_freep) = calloc(1, sizeof(*client));
    KeeperConfig config = {
        .state_dir = state_dir, .has_disks = has_disks, .answer = on_answer, .userdata = client};
    int r;

    if (!client)
        return -ENOMEM;
    list_init(&client->asks);
    r = keeper_new(&client->keeper, loop, &config);
    if (r == 0)
        *ret = take(client);
    return r;
}

KeeperClient *keeper_client_free(KeeperClient *client)
{
    if (client)
        keeper_free(client->keeper);
    free(client);
    return NULL;
}
