#include "clients/c/answer.h"

#include <errno.h>

#include "clients/c/json.h"

typedef struct Answer {
    Reply reply;
    max_align_t value[];
} Answer;

static int answer_new(Answer **ret, size_t size, AnswerRead *read, Reply *reply, Problem *problem)
{
    Answer *answer = calloc(1, sizeof(*answer) + size);
    Arena arena = {.zone = reply->message.zone};
    int r;

    if (!answer)
        return -ENOMEM;
    r = read(answer->value, &reply->message.body, &arena, problem);
    if (!r && arena.failed)
        r = -ENOMEM;
    if (r < 0) {
        free(answer);
        return r;
    }
    answer->reply = *reply;
    *reply = REPLY_NULL;
    *ret = answer;
    return 0;
}

int answer_call(LimpetClient *client, ClientCall *call, size_t size, AnswerRead *read, void **ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Answer *answer;
    int r = client_call(client, call, &reply);

    if (!r)
        r = answer_new(&answer, size, read, &reply, &client->problem);
    if (!r)
        *ret = answer->value;
    return r;
}

void answer_free(void *value)
{
    Answer *answer = container_of(value, Answer, value);

    if (!value)
        return;
    reply_deinit(&answer->reply);
    free(answer);
}

char *answer_json(const void *value)
{
    const Answer *answer = container_of(value, const Answer, value);
    const msgpack_object object = {.type = MSGPACK_OBJECT_MAP, .via.map = answer->reply.message.body};
    _cleanup_(buf_deinit) Buf json = BUF_NULL;

    if (json_write(&json, &object, JSON_PATH) < 0)
        return NULL;
    return text_dup((Text){(const char *)buf_head(&json), json.size});
}
