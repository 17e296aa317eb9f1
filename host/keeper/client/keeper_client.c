#include "host/keeper/client/keeper_client.h"

#include <errno.h>
#include <string.h>

#include "host/keeper/keeper.h"
#include "host/keeper/link.h"
#include "proto/base/list.h"
#include "proto/base/log.h"

struct KeeperClient {
    Loop *loop;
    Keeper *keeper;  /* in this process; or NULL, and */
    KeeperLink link; /* to another */
    List asks;       /* without an answer so far, in the order they were made */
    List late;       /* KeeperAsk: what came while a call waited for its own answer */
    LoopIdle tell_late;
    uint64_t last_id;
};

typedef struct KeeperAsk {
    List link;
    uint64_t id;
    const JobType *type;
    KeeperDone *done;
    void *userdata;
    Problem *problem; /* of a call, which waits; NULL otherwise */
    Buf answer;
    int descriptors[JOB_DESCRIPTORS];
} KeeperAsk;

static void ask_free(KeeperAsk *ask)
{
    buf_deinit(&ask->answer);
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        closep(&ask->descriptors[i]);
    free(ask);
}

/* ---- what comes back ---- */

static KeeperAsk *find_ask(const KeeperClient *client, uint64_t id)
{
    KeeperAsk *ask;

    list_foreach (ask, &client->asks, KeeperAsk, link)
        if (ask->id == id)
            return ask;
    return NULL;
}

static KeeperAsk *take_ask(KeeperClient *client, uint64_t id)
{
    KeeperAsk *ask = find_ask(client, id);

    if (ask)
        list_remove(&ask->link);
    return ask;
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
static int decode(JobAnswer *ret, const KeeperAsk *ask, Message *message, Problem *problem)
{
    if (ask->answer.size == 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (message_decode(message, buf_head(&ask->answer), ask->answer.size, problem) < 0)
        return -EPROTO;
    if ((JobKind)message->kind == JOB_FAILED)
        return decode_failed(message, problem);
    return schema_decode(ret, ask->type->answer(), &message->body, problem);
}

/* Frees it. */
static void tell(KeeperAsk *ask)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    JobAnswer body;
    bool failed = decode(&body, ask, &message, &problem) < 0;
    KeeperAnswer answer = {
        .problem = failed ? &problem : NULL,
        .body = failed ? NULL : &body,
    };

    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        answer.descriptors[i] = take_fd(&ask->descriptors[i]);
    if (ask->problem && failed)
        *ask->problem = problem;
    else if (ask->done)
        ask->done(ask->userdata, &answer);
    for (size_t i = 0; i < JOB_DESCRIPTORS; i++)
        closep(&answer.descriptors[i]);
    ask_free(ask);
}

static void tell_late(LoopIdle *idle)
{
    KeeperClient *client = container_of(idle, KeeperClient, tell_late);
    List *link;

    while ((link = list_first(&client->late))) {
        list_remove(link);
        tell(list_entry(link, KeeperAsk, link));
    }
}

/* What comes while a call waits would be told amid what somebody else does. */
static void tell_later(KeeperClient *client, KeeperAsk *ask)
{
    list_append(&client->late, &ask->link);
    loop_idle_add(client->loop, &client->tell_late, tell_late);
}

static void settle(KeeperAsk *ask, Buf *bytes, const int *descriptors)
{
    ask->answer = *bytes;
    memcpy(ask->descriptors, descriptors, sizeof(ask->descriptors));
    *bytes = BUF_NULL;
}

static void on_answer(void *userdata, uint64_t id, Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    KeeperAsk *ask = take_ask(userdata, id);

    settle(ask, bytes, descriptors);
    tell(ask);
}

/* ---- the other process ---- */

/* Sessions live on, and whoever comes next adopts them: as after a crash of ours. */
static _Noreturn void end_without_keeper(int error)
{
    log_error("files worker lost", "error=%s", strerror(-error));
    _exit(1);
}

static uint64_t id_of(const Buf *bytes)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    return message_decode(&message, buf_head(bytes), bytes->size, &problem) == 0 ? message.id : 0;
}

static void on_message(KeeperLink *link, Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    KeeperClient *client = container_of(link, KeeperClient, link);
    KeeperAsk *ask = take_ask(client, id_of(bytes));

    if (!ask)
        end_without_keeper(-EBADMSG);
    settle(ask, bytes, descriptors);
    if (ask->problem)
        tell(ask);
    else
        tell_later(client, ask);
}

static void on_lost(KeeperLink *link, int error)
{
    end_without_keeper(error);
}

static const KeeperLinkEvents link_events = {.message = on_message, .lost = on_lost};

/* ---- asking ---- */

static KeeperAsk *add_ask(KeeperClient *client, const JobType *type, KeeperDone *done, void *userdata,
                          Problem *problem)
{
    KeeperAsk *ask = calloc(1, sizeof(*ask));

    if (!ask)
        return NULL;
    *ask = (KeeperAsk){.id = ++client->last_id,
                       .type = type,
                       .done = done,
                       .userdata = userdata,
                       .problem = problem,
                       .descriptors = {-1, -1}};
    list_append(&client->asks, &ask->link);
    return ask;
}

/* 0, or a negative errno when nobody has been asked. Takes the bytes over. */
static int hand_over(KeeperClient *client, Buf *bytes)
{
    Problem problem = PROBLEM_NULL;
    int none[JOB_DESCRIPTORS] = {-1, -1};

    if (!client->keeper)
        return keeper_link_send(&client->link, bytes, none) == -ENOMEM ? -ENOMEM : 0;
    if (keeper_take(client->keeper, bytes, &problem) == 0)
        return 0;
    return problem.code == ERR_INTERNAL ? -ENOMEM : -EINVAL;
}

/* 0, or a negative errno with the ask freed. */
static int send_ask(KeeperClient *client, KeeperAsk *ask, JobKind kind, const void *request)
{
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    uint64_t id = ask->id;
    int r = message_append(&bytes, (MessageKind)kind, id, ask->type->request(), request);

    if (r == 0)
        r = hand_over(client, &bytes);
    if (r < 0 && (ask = take_ask(client, id)))
        ask_free(ask);
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
    uint64_t id = client->last_id;
    int r = ask ? send_ask(client, ask, kind, request) : -ENOMEM;

    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    while (!client->keeper && find_ask(client, id))
        keeper_link_wait(&client->link);
    if (failure.code == ERR_NONE)
        return 0;
    *problem = failure;
    return -EPROTO;
}

/* ---- its life ---- */

static KeeperClient *client_alloc(Loop *loop)
{
    KeeperClient *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->loop = loop;
    list_init(&client->asks);
    list_init(&client->late);
    return client;
}

int keeper_client_new(KeeperClient **ret, Loop *loop, const char *state_dir, bool has_disks)
{
    KeeperClient *client _cleanup_(keeper_client_freep) = client_alloc(loop);
    KeeperConfig config = {
        .state_dir = state_dir, .has_disks = has_disks, .answer = on_answer, .userdata = client};
    int r;

    if (!client)
        return -ENOMEM;
    r = keeper_new(&client->keeper, loop, &config);
    if (r == 0)
        *ret = take(client);
    return r;
}

int keeper_client_connect(KeeperClient **ret, Loop *loop, int fd)
{
    static const KeeperLinkLimits limits = {.frame = KEEPER_ANSWER_MAX, .out = SIZE_MAX};
    KeeperClient *client _cleanup_(keeper_client_freep) = client_alloc(loop);
    int r;

    if (!client) {
        close(fd);
        return -ENOMEM;
    }
    r = keeper_link_open(&client->link, loop, fd, &limits, &link_events);
    if (r == 0)
        *ret = take(client);
    return r;
}

KeeperClient *keeper_client_free(KeeperClient *client)
{
    if (!client)
        return NULL;
    keeper_free(client->keeper);
    while (client->link.file.loop && !list_empty(&client->asks))
        keeper_link_wait(&client->link);
    tell_late(&client->tell_late);
    loop_idle_remove(&client->tell_late);
    keeper_link_close(&client->link);
    free(client);
    return NULL;
}
