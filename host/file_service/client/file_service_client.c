#include "host/file_service/client/file_service_client.h"

#include <errno.h>
#include <string.h>

#include "host/file_service/file_service.h"
#include "host/file_service/protocol.h"
#include "proto/base/clock.h"
#include "proto/base/list.h"
#include "proto/base/log.h"

/* Requests of a lane that are under way at once, and those of them that may be one user's: as many as the
 * file service has threads for copies (see file_service.c). A request that waited there would wait behind
 * all; here it waits behind its user's. */
#define UNDER_WAY_MAX     4u
#define UNDER_WAY_OF_USER 3u
/* For answers in a turn of the loop. */
#define TURN_TIME (50 * NSEC_PER_USEC)
/* For what is under way when the client ends. */
#define END_SECONDS 60.0

typedef struct Lane {
    unsigned under_way;
    List queues; /* Queue: the one whose turn it is comes first */
} Lane;

enum {
    LANE_COPIES,
    LANE_DISKS,
    LANES,
};

/* Slow jobs of one user. It is there while there are any. */
typedef struct Queue {
    List link; /* Lane.queues */
    uid_t user;
    unsigned under_way;
    List waiting; /* FileServiceAsk.in_queue */
} Queue;

struct FileServiceClient {
    Loop *loop;
    Lane lanes[LANES];
    bool sending;              /* amid what waits */
    FileService *file_service; /* in this process; or NULL, and */
    Ipc ipc;                   /* to another */
    List asks;                 /* without an answer so far, in the order they were made */
    List late;                 /* FileServiceAsk: answers to be told */
    LoopIdle tell_late;
    uint64_t last_id;
};

typedef struct FileServiceAsk {
    List link;
    List in_queue; /* while it waits */
    Queue *queue;  /* of a slow one */
    Lane *lane;
    Buf request; /* until it is sent */
    uint64_t id;
    const JobType *type;
    FileServiceDone *done;
    void *userdata;
    Buf answer;
    Descriptors descriptors; /* of the request, and then of the answer */
} FileServiceAsk;

static void ask_free(FileServiceAsk *ask)
{
    list_remove(&ask->in_queue);
    buf_deinit(&ask->request);
    buf_deinit(&ask->answer);
    descriptors_close(&ask->descriptors);
    free(ask);
}

/* ---- what waits ---- */

static void send_waiting(FileServiceClient *client);

static Queue *queue_of(Lane *lane, uid_t user)
{
    Queue *queue;

    list_foreach (queue, &lane->queues, Queue, link)
        if (queue->user == user)
            return queue;
    queue = calloc(1, sizeof(*queue));
    if (!queue)
        return NULL;
    queue->user = user;
    list_init(&queue->waiting);
    list_append(&lane->queues, &queue->link);
    return queue;
}

static void queue_free_unused(Queue *queue)
{
    if (queue->under_way > 0 || !list_empty(&queue->waiting))
        return;
    list_remove(&queue->link);
    free(queue);
}

/* The next one that may be sent; its user comes last from now on. */
static FileServiceAsk *next_waiting(Lane *lane)
{
    Queue *queue;

    if (lane->under_way >= UNDER_WAY_MAX)
        return NULL;
    list_foreach (queue, &lane->queues, Queue, link) {
        List *first = list_first(&queue->waiting);

        if (!first || queue->under_way >= UNDER_WAY_OF_USER)
            continue;
        list_remove(first);
        list_remove(&queue->link);
        list_append(&lane->queues, &queue->link);
        return list_entry(first, FileServiceAsk, in_queue);
    }
    return NULL;
}

/* Takes an ask that has its answer off its lane, and sends those that wait. */
static void over(FileServiceClient *client, FileServiceAsk *ask)
{
    if (!ask->lane)
        return;
    ask->lane->under_way--;
    ask->queue->under_way--;
    queue_free_unused(take(ask->queue));
    send_waiting(client);
}

/* ---- what comes back ---- */

static FileServiceAsk *take_ask(FileServiceClient *client, uint64_t id)
{
    FileServiceAsk *ask;

    list_foreach (ask, &client->asks, FileServiceAsk, link)
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

/* 0, or -EPROTO with the problem set: that of the file service, or one with its answer. */
static int decode(JobAnswer *ret, const FileServiceAsk *ask, Message *message, Problem *problem)
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
static void tell(FileServiceAsk *ask)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    JobAnswer body;
    bool failed = decode(&body, ask, &message, &problem) < 0;
    FileServiceAnswer answer = {
        .problem = failed ? &problem : NULL,
        .body = failed ? NULL : &body,
        .descriptors = ask->descriptors,
    };

    ask->descriptors.n = 0;
    if (ask->done)
        ask->done(ask->userdata, &answer);
    descriptors_close(&answer.descriptors);
    ask_free(ask);
}

/* Tells what there is time for in a turn of the loop: an answer may be a megabyte to be passed on. */
static void tell_late(LoopIdle *idle)
{
    FileServiceClient *client = container_of(idle, FileServiceClient, tell_late);
    uint64_t began = clock_now();
    List *link;

    while ((link = list_first(&client->late)) && clock_now() - began < TURN_TIME) {
        list_remove(link);
        tell(list_entry(link, FileServiceAsk, link));
    }
    if (!list_empty(&client->late))
        loop_idle_add(client->loop, idle, tell_late);
}

/* Tells an answer once nothing else happens: it may come while somebody asks. */
static void settle(FileServiceClient *client, FileServiceAsk *ask, Buf *bytes, Descriptors *descriptors)
{
    ask->answer = *bytes;
    ask->descriptors = *descriptors;
    *bytes = BUF_NULL;
    *descriptors = (Descriptors){0};
    over(client, ask);
    list_append(&client->late, &ask->link);
    loop_idle_add(client->loop, &client->tell_late, tell_late);
}

static void on_answer(void *userdata, uint64_t id, Buf *bytes, Descriptors *descriptors)
{
    settle(userdata, take_ask(userdata, id), bytes, descriptors);
}

/* ---- the other process ---- */

/* Sessions live on, and whoever comes next adopts them: as after a crash of ours. */
static _Noreturn void end_without_file_service(int error)
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

static int on_frame(Ipc *ipc, Buf *bytes, Descriptors *descriptors)
{
    FileServiceClient *client = container_of(ipc, FileServiceClient, ipc);
    FileServiceAsk *ask = take_ask(client, id_of(bytes));

    if (!ask)
        end_without_file_service(-EBADMSG);
    settle(client, ask, bytes, descriptors);
    return 0;
}

static void on_lost(Ipc *ipc, int error)
{
    end_without_file_service(error);
}

static const IpcEvents ipc_events = {.frame = on_frame, .lost = on_lost};

/* ---- asking ---- */

/* NULL without memory for it. */
static FileServiceAsk *add_ask(FileServiceClient *client, JobKind kind, const void *request,
                               FileServiceDone *done, void *userdata)
{
    FileServiceAsk *ask = calloc(1, sizeof(*ask));

    if (!ask)
        return NULL;
    *ask =
        (FileServiceAsk){.id = ++client->last_id, .type = job_type(kind), .done = done, .userdata = userdata};
    list_init(&ask->in_queue);
    list_init(&ask->link);
    if (message_append(&ask->request, (MessageKind)kind, ask->id, ask->type->request(), request) < 0) {
        ask_free(ask);
        return NULL;
    }
    list_append(&client->asks, &ask->link);
    return ask;
}

static int hand_over(FileServiceClient *client, Buf *bytes, Descriptors *descriptors)
{
    Problem problem = PROBLEM_NULL;
    int r;

    if (!client->file_service)
        return ipc_send_frame(&client->ipc, bytes, descriptors) == -ENOMEM ? -ENOMEM : 0;
    r = file_service_take(client->file_service, bytes, descriptors, &problem);
    descriptors_close(descriptors);
    return r;
}

/* Sends it; an answer may be there when this returns. */
static void send_ask(FileServiceClient *client, FileServiceAsk *ask)
{
    Buf bytes = ask->request;
    uint64_t id = ask->id;
    Descriptors passed = ask->descriptors, none = {0};

    ask->request = BUF_NULL;
    ask->descriptors = none;
    if (hand_over(client, &bytes, &passed) < 0 && (ask = take_ask(client, id)))
        settle(client, ask, &BUF_NULL, &none); /* without bytes it is told so */
}

/* An answer may come amid this, and have more sent. */
static void send_waiting(FileServiceClient *client)
{
    if (client->sending)
        return;
    client->sending = true;
    for (size_t i = 0; i < LANES; i++) {
        FileServiceAsk *ask;

        while ((ask = next_waiting(&client->lanes[i]))) {
            ask->lane->under_way++;
            ask->queue->under_way++;
            send_ask(client, ask);
        }
    }
    client->sending = false;
}

int file_service_ask(FileServiceClient *client, uid_t user, JobKind kind, const void *request,
                     FileServiceDone *done, void *userdata)
{
    return file_service_pass(client, user, kind, request, -1, done, userdata);
}

int file_service_pass(FileServiceClient *client, uid_t user, JobKind kind, const void *request, int fd,
                      FileServiceDone *done, void *userdata)
{
    Lane *lane = &client->lanes[kind == JOB_PREPARE ? LANE_DISKS : LANE_COPIES];
    Queue *queue = job_type(kind)->slow ? queue_of(lane, user) : NULL;
    FileServiceAsk *ask = add_ask(client, kind, request, done, userdata);

    if (ask)
        descriptors_add(&ask->descriptors, fd);
    else
        closep(&fd);
    if (ask && queue) {
        ask->lane = lane;
        ask->queue = queue;
        list_append(&queue->waiting, &ask->in_queue);
        send_waiting(client);
    } else if (ask && !job_type(kind)->slow) {
        send_ask(client, ask);
    } else {
        if (ask)
            list_remove(&ask->link);
        if (ask)
            ask_free(ask);
        if (queue)
            queue_free_unused(queue);
        return -ENOMEM;
    }
    return 0;
}

static void on_told(void *userdata, FileServiceAnswer *answer)
{
    const JobType *type = userdata;

    if (answer->problem)
        log_warn("files of a session not kept as asked", "job=%s reason=%s", type->name,
                 answer->problem->text);
}

void file_service_tell(FileServiceClient *client, JobKind kind, const void *request)
{
    const JobType *type = job_type(kind);

    if (file_service_ask(client, NOBODYS, kind, request, on_told, (void *)type) < 0)
        log_warn("files of a session not kept as asked", "job=%s reason=out of memory", type->name);
}

/* ---- its life ---- */

static FileServiceClient *client_alloc(Loop *loop)
{
    FileServiceClient *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->loop = loop;
    list_init(&client->asks);
    list_init(&client->late);
    for (size_t i = 0; i < LANES; i++)
        list_init(&client->lanes[i].queues);
    return client;
}

int file_service_client_new(FileServiceClient **ret, Loop *loop, const char *state_dir, bool has_disks)
{
    FileServiceClient *client _cleanup_(file_service_client_freep) = client_alloc(loop);
    FileServiceConfig config = {
        .state_dir = state_dir, .has_disks = has_disks, .answer = on_answer, .userdata = client};
    int r;

    if (!client)
        return -ENOMEM;
    r = file_service_new(&client->file_service, loop, &config);
    if (r == 0)
        *ret = take(client);
    return r;
}

int file_service_client_connect(FileServiceClient **ret, Loop *loop, int fd)
{
    static const IpcLimits limits = {.frame = FILE_SERVICE_ANSWER_MAX, .out = SIZE_MAX, .most = SIZE_MAX};
    FileServiceClient *client _cleanup_(file_service_client_freep) = client_alloc(loop);
    int r;

    if (!client) {
        close(fd);
        return -ENOMEM;
    }
    r = ipc_open(&client->ipc, loop, fd, &limits, &ipc_events);
    if (r == 0)
        *ret = take(client);
    return r;
}

FileServiceClient *file_service_client_free(FileServiceClient *client)
{
    uint64_t now, end = clock_now() + clock_from_seconds(END_SECONDS);

    if (!client)
        return NULL;
    file_service_free(client->file_service);
    while (client->ipc.file.loop && !client->ipc.error && !list_empty(&client->asks) &&
           (now = clock_now()) < end)
        ipc_wait(&client->ipc, (int)((end - now) / NSEC_PER_MSEC) + 1);
    if (client->ipc.error)
        end_without_file_service(client->ipc.error);
    while (!list_empty(&client->late))
        tell_late(&client->tell_late);
    loop_idle_remove(&client->tell_late);
    ipc_close(&client->ipc);
    free(client);
    return NULL;
}
