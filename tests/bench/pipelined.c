/* Calls that queue on one session: a round sends WINDOW run requests at once and waits for all their replies.
 * Arguments: the session's name, the code, WINDOW. */
#include <string.h>
#include <sys/random.h>

#include "clients/c/connection.h"
#include "proto/wire.h"
#include "tests/bench/bench.h"

#define CONNECT_SECONDS 10.0

typedef struct Pipeline {
    ClientConnection connection;
    Buf request;
    const char *session, *code;
    unsigned long window;
    uint64_t id, random; /* a run_id is made of both */
} Pipeline;

static int send_run(Pipeline *p)
{
    char run_id[LIMIT_RUN_ID + 1];
    Writer w;

    snprintf(run_id, sizeof(run_id), "%016llx%016llx", (unsigned long long)p->random,
             (unsigned long long)++p->id);
    buf_clear(&p->request);
    writer_message(&w, &p->request, MSG_RUN, p->id, 3);
    write_key(&w, "session");
    write_text(&w, p->session);
    write_key(&w, "code");
    write_text(&w, p->code);
    write_key(&w, "run_id");
    write_text(&w, run_id);
    return writer_finish(&w) || connection_send(&p->connection, &p->request);
}

static bool is_ok(const Message *reply)
{
    const msgpack_object *status = map_find(&reply->body, "status");

    return reply->kind == MSG_REPLY && status && status->type == MSGPACK_OBJECT_STR &&
           text_equal((Text){status->via.str.ptr, status->via.str.size}, "ok");
}

static int take_reply(Pipeline *p)
{
    Problem problem = PROBLEM_NULL;
    Message reply = MESSAGE_NULL;
    ZmtpFrame frame;
    bool ok;

    if (connection_receive(&p->connection, -1, 0, &frame) ||
        message_decode(&reply, frame.data, frame.size, &problem))
        return 1;
    ok = is_ok(&reply);
    message_deinit(&reply);
    return !ok;
}

static int batch(void *context, uint64_t *begin)
{
    Pipeline *p = context;

    for (unsigned long i = 0; i < p->window; i++)
        if (send_run(p))
            return 1;
    for (unsigned long i = 0; i < p->window; i++)
        if (take_reply(p))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    Pipeline p = {.connection = CONNECTION_NULL};
    const char *path = getenv("LIMPET_SOCKET");
    int status;

    if (argc != 4 || !path || getrandom(&p.random, sizeof(p.random), 0) != (ssize_t)sizeof(p.random))
        return 2;
    p.session = argv[1];
    p.code = argv[2];
    p.window = strtoul(argv[3], NULL, 10);
    if (connection_open(&p.connection, path, clock_now() + clock_from_seconds(CONNECT_SECONDS))) {
        fprintf(stderr, "no controller answers at %s\n", path);
        return 1;
    }
    status = bench_serve(batch, &p);
    if (status)
        fprintf(stderr, "a queued call failed\n");
    connection_close(&p.connection);
    buf_deinit(&p.request);
    return status;
}
