#include "guest/supervisor/ask.h"

#include <string.h>

#include "guest/channel.h"

typedef struct Ask {
    List link;
    uint64_t number;
    bool sent;
    Buf envelope; /* the message to the controller */
} Ask;

static Ask *ask_free(Ask *ask)
{
    if (!ask)
        return NULL;
    buf_deinit(&ask->envelope);
    free(ask);
    return NULL;
}
DEFINE_CLEANUP(Ask *, ask_free);

void asks_init(Asks *asks, AskMode mode)
{
    *asks = (Asks){.mode = mode};
    list_init(&asks->waiting);
}

static void drop(Asks *asks, Ask *ask)
{
    list_remove(&ask->link);
    asks->count--;
    ask_free(ask);
}

void asks_deinit(Asks *asks)
{
    Ask *ask;

    list_foreach (ask, &asks->waiting, Ask, link)
        drop(asks, ask);
    asks->mode = ASK_NOBODY;
}

/* What may be asked: `tool` alone has something with it. */
static const struct {
    const char *kind;
    bool payload;
    const char *refusal; /* the exception that says so where nobody is asked */
} kinds[] = {
    {"input", false, "EOFError"},
    {"secret", false, "EOFError"},
    {"tools", false, "RuntimeError"},
    {"tool", true, "RuntimeError"},
};

/* SIZE_MAX: no such kind. */
static size_t kind_find(Text kind)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (text_equal(kind, kinds[i].kind))
            return i;
    return SIZE_MAX;
}

int question_decode(Question *ret, const msgpack_object_map *body, Problem *problem)
{
    /* Their sizes have limits too: a question over those is answered, it breaks nothing. */
    static const Field fields[] = {
        FIELD(FIELD_UINT, Question, ask, true, 0),
        FIELD(FIELD_TEXT, Question, kind, true, 0),
        FIELD(FIELD_TEXT, Question, name, false, 0),
        FIELD(FIELD_BYTES, Question, payload, false, 0),
    };
    Question question = {.name = {"", 0}};
    int r = fields_decode(&question, fields, ARRAY_SIZE(fields), body, problem);

    if (r < 0)
        return r;
    size_t kind = kind_find(question.kind);
    if (kind == SIZE_MAX)
        return problem_set(problem, ERR_BAD_REQUEST, "an `ask` of an unknown kind");
    if (kinds[kind].payload != !!question.payload.data)
        return problem_set(problem, ERR_BAD_REQUEST, "an `ask` of kind %s %s a payload", kinds[kind].kind,
                           kinds[kind].payload ? "without" : "with");
    *ret = question;
    return 0;
}

int answer_decode(Answer *ret, const msgpack_object_map *body, Problem *problem)
{
    typedef struct Body {
        uint64_t ask;
        Text payload;
        const msgpack_object_map *error;
    } Body;
    static const Field fields[] = {
        FIELD(FIELD_UINT, Body, ask, true, 0),
        FIELD(FIELD_BYTES, Body, payload, false, LIMIT_ASK),
        FIELD(FIELD_MAP, Body, error, false, 0),
    };
    static const Field error_fields[] = {
        FIELD(FIELD_TEXT, PythonError, name, true, LIMIT_NOTE),
        FIELD(FIELD_TEXT, PythonError, message, false, LIMIT_RESULT),
    };
    PythonError error = {.message = {"", 0}};
    Body said = {0};
    int r = fields_decode(&said, fields, ARRAY_SIZE(fields), body, problem);

    if (r == 0 && !said.payload.data == !said.error)
        r = problem_set(problem, ERR_BAD_REQUEST, "an `answer` has either `payload` or `error`");
    if (r == 0 && said.error)
        r = fields_decode(&error, error_fields, ARRAY_SIZE(error_fields), said.error, problem);
    if (r == 0)
        *ret = (Answer){.ask = said.ask, .payload = said.payload, .error = error};
    return r;
}

Answer question_refusal(const Question *question, const char *why)
{
    size_t kind = kind_find(question->kind);
    const char *name = kind < ARRAY_SIZE(kinds) ? kinds[kind].refusal : "RuntimeError";

    return (Answer){.ask = question->ask, .error = {.name = text_of(name), .message = text_of(why)}};
}

static Ask *find(const Asks *asks, uint64_t number)
{
    Ask *ask;

    list_foreach (ask, (List *)&asks->waiting, Ask, link)
        if (ask->number == number)
            return ask;
    return NULL;
}

static int encode(Buf *ret, uint64_t id, const Question *question)
{
    Writer w;

    writer_message(&w, ret, MSG_ASK, id, 4);
    write_key(&w, "ask");
    write_uint(&w, question->ask);
    write_key(&w, "kind");
    write_text_n(&w, question->kind.data, question->kind.size);
    write_key(&w, "name");
    write_text_n(&w, question->name.data, question->name.size);
    write_key(&w, "payload");
    if (question->payload.data)
        write_bytes(&w, question->payload.data, question->payload.size);
    else
        write_nil(&w);
    return writer_finish(&w);
}

const char *asks_add(Asks *asks, uint64_t id, const Question *question)
{
    if (asks->mode == ASK_NOBODY)
        return "nobody is there to be asked";
    if (question->name.size > LIMIT_ASK || question->payload.size > LIMIT_ASK)
        return "a question is over its limit of 1 MiB";
    if (asks->count >= LIMIT_ASKS)
        return "too many questions wait for an answer at once";
    if (asks->asked >= LIMIT_ASKED)
        return "this call has asked too many questions";
    if (find(asks, question->ask))
        return "a question of that number waits already";

    _cleanup_(ask_freep) Ask *ask = calloc(1, sizeof(*ask));
    if (!ask || encode(&ask->envelope, id, question) < 0)
        return "there is no memory for a question";
    ask->number = question->ask;
    list_append(&asks->waiting, &ask->link);
    take(ask);
    asks->count++;
    asks->asked++;
    return NULL;
}

bool asks_take(Asks *asks, uint64_t number)
{
    Ask *ask = find(asks, number);

    if (ask)
        drop(asks, ask);
    return ask;
}

bool asks_unsent(const Asks *asks)
{
    /* They are sent in order: the last one tells. */
    return asks->count > 0 && !list_entry(asks->waiting.prev, Ask, link)->sent;
}

void asks_send(Asks *asks, Link *link)
{
    Ask *ask;

    list_foreach (ask, &asks->waiting, Ask, link)
        if (!ask->sent && link_send(link, &ask->envelope) == 0)
            ask->sent = true;
}

void asks_send_again(Asks *asks)
{
    Ask *ask;

    list_foreach (ask, &asks->waiting, Ask, link)
        ask->sent = false;
}

static void write_answer(Writer *w, const Answer *answer)
{
    write_key(w, "ask");
    write_uint(w, answer->ask);
    write_key(w, "payload");
    if (answer->payload.data) {
        write_bytes(w, answer->payload.data, answer->payload.size);
        return;
    }
    write_nil(w);
    write_key(w, "error");
    write_map(w, 2);
    write_key(w, "name");
    write_text_n(w, answer->error.name.data, answer->error.name.size);
    write_key(w, "message");
    write_text_n(w, answer->error.message.data, answer->error.message.size);
}

int answer_encode(Buf *frame, uint64_t id, const Answer *answer)
{
    size_t mark = 0;
    Writer w;
    int r = channel_frame_begin(frame, &mark);

    if (r < 0)
        return r;
    writer_message(&w, frame, MSG_ANSWER, id, answer->payload.data ? 2 : 3);
    write_answer(&w, answer);
    r = writer_finish(&w);
    if (r < 0)
        channel_frame_abort(frame, mark);
    else
        channel_frame_end(frame, mark);
    return r;
}
