#include "guest/supervisor/call/questions.h"

#include <string.h>

#include "guest/channel.h"

typedef struct Ask {
    List link;
    uint64_t number;
    bool sent;
    Buf envelope; /* the encoded message to the controller */
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

void questions_init(Questions *questions, AskMode mode)
{
    *questions = (Questions){.mode = mode};
    list_init(&questions->waiting);
}

static void drop(Questions *questions, Ask *ask)
{
    list_remove(&ask->link);
    questions->count--;
    ask_free(ask);
}

void questions_deinit(Questions *questions)
{
    Ask *ask;

    list_foreach (ask, &questions->waiting, Ask, link)
        drop(questions, ask);
    questions->mode = ASK_NOBODY;
}

/* The kinds of questions. `tool` alone has a payload. */
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

int question_decode(MsgAsk *ret, const msgpack_object_map *body, Problem *problem)
{
    MsgAsk question;
    int r = body_decode(&question, MsgAsk, body, problem);

    if (r < 0)
        return r;
    size_t kind = kind_find(question.kind);
    if (kind == SIZE_MAX)
        return problem_set(problem, ERR_BAD_REQUEST, "an `ask` of an unknown kind");
    if (kinds[kind].payload != !!question.payload.data)
        return problem_set(problem, ERR_BAD_REQUEST, "an `ask` of kind %s %s a payload", kinds[kind].kind,
                           kinds[kind].payload ? "without" : "with");
    if (!question.name.data)
        question.name = (Text){"", 0};
    *ret = question;
    return 0;
}

int answer_decode(MsgAnswer *ret, const msgpack_object_map *body, Problem *problem)
{
    MsgAnswer said;
    int r = body_decode(&said, MsgAnswer, body, problem);

    if (r == 0 && !said.payload.data == !said.has_error)
        r = problem_set(problem, ERR_BAD_REQUEST, "an `answer` has either `payload` or `error`");
    if (r == 0)
        *ret = said;
    return r;
}

MsgAnswer question_refusal(const MsgAsk *question, const char *why)
{
    size_t kind = kind_find(question->kind);
    const char *name = kind < ARRAY_SIZE(kinds) ? kinds[kind].refusal : "RuntimeError";

    return (MsgAnswer){
        .ask = question->ask, .has_error = true, .error = {.name = text_of(name), .message = text_of(why)}};
}

static Ask *find(const Questions *questions, uint64_t number)
{
    Ask *ask;

    list_foreach (ask, (List *)&questions->waiting, Ask, link)
        if (ask->number == number)
            return ask;
    return NULL;
}

const char *questions_add(Questions *questions, uint64_t id, const MsgAsk *question)
{
    if (questions->mode == ASK_NOBODY)
        return "there is no client to ask";
    if (question->name.size > LIMIT_ASK || question->payload.size > LIMIT_ASK)
        return "a question exceeds its limit of 1 MiB";
    if (questions->count >= LIMIT_ASKS)
        return "too many questions wait for an answer";
    if (questions->asked >= LIMIT_ASKED)
        return "this call has asked too many questions";
    if (find(questions, question->ask))
        return "a question with this number is already waiting";

    _cleanup_(ask_freep) Ask *ask = calloc(1, sizeof(*ask));
    if (!ask || message_encode(&ask->envelope, MSG_ASK, id, MsgAsk, question) < 0)
        return "there is no memory for a question";
    ask->number = question->ask;
    list_append(&questions->waiting, &ask->link);
    take(ask);
    questions->count++;
    questions->asked++;
    return NULL;
}

bool questions_take(Questions *questions, uint64_t number)
{
    Ask *ask = find(questions, number);

    if (ask)
        drop(questions, ask);
    return ask;
}

bool questions_unsent(const Questions *questions)
{
    /* Questions are sent in order: the last one tells. */
    return questions->count > 0 && !list_entry(questions->waiting.prev, Ask, link)->sent;
}

void questions_send(Questions *questions, Link *link)
{
    Ask *ask;

    list_foreach (ask, &questions->waiting, Ask, link)
        if (!ask->sent && link_send(link, &ask->envelope) == 0)
            ask->sent = true;
}

void questions_send_again(Questions *questions)
{
    Ask *ask;

    list_foreach (ask, &questions->waiting, Ask, link)
        ask->sent = false;
}

int answer_encode(Buf *frame, uint64_t id, const MsgAnswer *answer)
{
    return channel_say(frame, MSG_ANSWER, id, MsgAnswer, answer);
}
