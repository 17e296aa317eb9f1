#include "guest/supervisor/command/background.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "proto/base/clock.h"

void history_deinit(OutputHistory *history)
{
    buf_deinit(&history->bytes);
    buf_deinit(&history->pieces);
}

static size_t piece_count(const OutputHistory *history)
{
    return history->pieces.size / sizeof(HistoryPiece);
}

static HistoryPiece *piece(const OutputHistory *history, size_t i)
{
    return (HistoryPiece *)buf_head(&history->pieces) + i;
}

static void forget_oldest(OutputHistory *history, size_t n)
{
    size_t gone = 0;

    buf_consume(&history->bytes, n);
    while (gone < piece_count(history) && piece(history, gone)->end <= history_begin(history))
        gone++;
    buf_consume(&history->pieces, gone * sizeof(HistoryPiece));
}

/* The last piece grows, or a new one follows it. 0 or -ENOMEM. */
static int extend(OutputHistory *history, unsigned stream, size_t n)
{
    size_t count = piece_count(history);
    HistoryPiece next = {history->total + n, stream};

    if (count > 0 && piece(history, count - 1)->stream == stream) {
        piece(history, count - 1)->end = next.end;
        return 0;
    }
    if (count >= LIMIT_PIECES)
        forget_oldest(history, (size_t)(piece(history, 0)->end - history_begin(history)));
    return buf_append(&history->pieces, &next, sizeof(next));
}

void history_write(OutputHistory *history, unsigned stream, const uint8_t *bytes, size_t n)
{
    size_t kept = MIN(n, (size_t)LIMIT_TAIL);

    if (history->bytes.size + kept > LIMIT_TAIL)
        forget_oldest(history, history->bytes.size + kept - LIMIT_TAIL);
    if (extend(history, stream, n) < 0 || buf_append(&history->bytes, bytes + n - kept, kept) < 0) {
        buf_clear(&history->bytes);
        buf_clear(&history->pieces);
    }
    history->total += n;
}

HistoryRun history_run(const OutputHistory *history, uint64_t from, size_t most)
{
    for (size_t i = 0; i < piece_count(history); i++) {
        const HistoryPiece *found = piece(history, i);

        if (from < found->end)
            return (HistoryRun){found->stream, buf_head(&history->bytes) + (from - history_begin(history)),
                                (size_t)MIN(found->end - from, (uint64_t)most)};
    }
    return (HistoryRun){0};
}

/* Byte that a terminal takes for the end of input. */
#define TERMINAL_END "\x04"

/* A question for output behind `since`, which is answered once there is some. */
typedef struct OutputQuestion {
    List link; /* Background.questions */
    Background *background;
    uint64_t id;
    uint64_t since;
    LoopTimer due;
} OutputQuestion;

/* ---- what it has written ---- */

/* As much as goes into a reply. */
typedef struct Excerpt {
    const OutputHistory *history;
    uint64_t from, to;
    uint32_t runs;
} Excerpt;

static Excerpt excerpt_of(const OutputHistory *history, uint64_t since)
{
    uint64_t from = MAX(MIN(since, history->total), history_begin(history));
    Excerpt excerpt = {history, from, from, 0};
    HistoryRun run;

    while ((run = history_run(history, excerpt.to, LIMIT_OUTPUT_REPLY - (size_t)(excerpt.to - from))).n > 0) {
        excerpt.to += run.n;
        excerpt.runs++;
    }
    return excerpt;
}

static void write_pieces(Writer *w, const void *source)
{
    const Excerpt *excerpt = source;

    write_array(w, excerpt->runs);
    for (uint64_t at = excerpt->from; at < excerpt->to;) {
        HistoryRun run = history_run(excerpt->history, at, (size_t)(excerpt->to - at));

        body_write(w, MsgPiece,
                   (&(MsgPiece){.stream = run.stream, .data = {(const char *)run.bytes, run.n}}));
        at += run.n;
    }
}

static void tell(const Background *background, uint64_t id, uint64_t since)
{
    Excerpt excerpt = excerpt_of(&background->history, since);
    const MsgProcessOutputReply reply = {
        .since = excerpt.from,
        .next = excerpt.to,
        .ended = background->ended && excerpt.to == background->history.total,
        .pieces = {.write = write_pieces, .source = &excerpt},
    };

    link_reply(background->link, id, MsgProcessOutputReply, &reply);
}

static void forget(OutputQuestion *question)
{
    list_remove(&question->link);
    loop_timer_cancel(&question->due);
    free(question);
}

static void on_due(LoopTimer *timer)
{
    OutputQuestion *question = container_of(timer, OutputQuestion, due);

    tell(question->background, question->id, question->since);
    forget(question);
}

static void tell_all(Background *background)
{
    OutputQuestion *question;

    list_foreach (question, &background->questions, OutputQuestion, link) {
        tell(background, question->id, question->since);
        forget(question);
    }
}

static int wait_for_more(Background *background, uint64_t id, uint64_t since, double seconds,
                         Problem *problem)
{
    OutputQuestion *question = calloc(1, sizeof(*question));

    if (!question || loop_timer_set(background->loop, &question->due,
                                    clock_now() + clock_from_seconds(seconds), on_due) < 0) {
        free(question);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    question->background = background;
    question->id = id;
    question->since = since;
    list_append(&background->questions, &question->link);
    return 0;
}

int background_tell(Background *background, uint64_t id, const MsgProcessOutput *asked, Problem *problem)
{
    double seconds = isnan(asked->timeout) ? OUTPUT_SECONDS : MIN(asked->timeout, OUTPUT_SECONDS);
    uint64_t since = uint_or(asked->since, 0);

    if (since < background->history.total || background->ended || seconds <= 0) {
        tell(background, id, since);
        return 0;
    }
    return wait_for_more(background, id, since, seconds, problem);
}

void background_output(Background *background, unsigned stream, const uint8_t *bytes, size_t n)
{
    history_write(&background->history, stream, bytes, n);
    tell_all(background);
}

/* ---- what it reads ---- */

static int refuse_input(Problem *problem)
{
    return problem_set(problem, ERR_BAD_REQUEST,
                       "nothing can be sent to it: its standard input is closed, or it has ended");
}

static void answer_sending(Background *background, bool taken)
{
    uint64_t id = background->sending;
    Problem problem = PROBLEM_NULL;

    background->sending = 0;
    if (taken) {
        link_reply(background->link, id, MsgNothing, &(MsgNothing){0});
        return;
    }
    refuse_input(&problem);
    link_refuse_problem(background->link, id, &problem);
}

static void forget_key(Background *background)
{
    memset(background->sent, 0, sizeof(background->sent));
}

void background_taken(Background *background, const PipeWriter *writer)
{
    bool taken = writer->fd >= 0 || writer->ends;

    if (writer->waiting.size > 0)
        return;
    if (!taken)
        forget_key(background); /* also where whoever sent it is not there to be told */
    if (background->sending)
        answer_sending(background, taken);
}

static int feed_all(PipeWriter *writer, bool terminal, const MsgProcessSend *asked)
{
    int r = asked->data.size > 0 ? pipe_writer_write(writer, asked->data.data, asked->data.size) : 0;

    if (r == 0 && asked->end && terminal)
        r = pipe_writer_write(writer, TERMINAL_END, 1);
    else if (r == 0 && asked->end)
        pipe_writer_end(writer);
    return r;
}

/* The message before asked for the same, and has not been answered yet. */
static void refuse_former(Background *background)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_BUSY, "it has been asked again, and that is answered");
    link_refuse_problem(background->link, background->sending, &problem);
}

static void keep_key(Background *background, Text key)
{
    forget_key(background);
    if (key.data)
        memcpy(background->sent, key.data, MIN(key.size, LIMIT_RUN_ID));
}

static bool is_sent(const Background *background, const MsgProcessSend *asked)
{
    return asked->key.size > 0 && text_equal(asked->key, background->sent);
}

/* Also what nobody waits for any more, and may be asked again. */
static bool is_busy(const Background *background, const PipeWriter *writer)
{
    return background->sending || (*background->sent && writer->waiting.size > 0);
}

int background_send(Background *background, PipeWriter *writer, bool terminal, uint64_t id,
                    const MsgProcessSend *asked, Problem *problem)
{
    bool again = is_sent(background, asked);
    int r;

    if (!again && is_busy(background, writer))
        return problem_set(problem, ERR_BUSY,
                           "it has not read yet what was sent to it before; wait for that");
    if (!again && !pipe_writer_is_open(writer))
        return refuse_input(problem);
    if (background->sending)
        refuse_former(background);
    background->sending = id;
    r = again ? 0 : feed_all(writer, terminal, asked);
    if (r < 0) {
        background->sending = 0;
        return r == -EPIPE ? refuse_input(problem) : problem_set(problem, ERR_INTERNAL, "%s", strerror(-r));
    }
    keep_key(background, asked->key);
    if (again && writer->waiting.size == 0)
        answer_sending(background, true);
    else
        background_taken(background, writer);
    return 0;
}

/* ---- its life ---- */

void background_init(Background *background, Loop *loop, Link *link, Text name)
{
    *background = (Background){.loop = loop, .link = link};
    list_init(&background->questions);
    if (name.data)
        memcpy(background->name, name.data, MIN(name.size, LIMIT_PROCESS_NAME));
}

void background_ended(Background *background)
{
    background->ended = true;
    tell_all(background);
    if (background->sending)
        answer_sending(background, false);
}

void background_unattended(Background *background)
{
    OutputQuestion *question;

    background->sending = 0;
    list_foreach (question, &background->questions, OutputQuestion, link)
        forget(question);
}

void background_deinit(Background *background)
{
    background_unattended(background);
    history_deinit(&background->history);
}
