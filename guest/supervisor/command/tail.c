#include "guest/supervisor/command/tail.h"

void tail_deinit(Tail *tail)
{
    buf_deinit(&tail->bytes);
    buf_deinit(&tail->pieces);
}

static size_t piece_count(const Tail *tail)
{
    return tail->pieces.size / sizeof(TailPiece);
}

static TailPiece *piece(const Tail *tail, size_t i)
{
    return (TailPiece *)buf_head(&tail->pieces) + i;
}

static void forget(Tail *tail, size_t n)
{
    size_t gone = 0;

    buf_consume(&tail->bytes, n);
    while (gone < piece_count(tail) && piece(tail, gone)->end <= tail_begin(tail))
        gone++;
    buf_consume(&tail->pieces, gone * sizeof(TailPiece));
}

/* The last piece grows, or a new one follows it. 0 or -ENOMEM. */
static int extend(Tail *tail, unsigned stream, size_t n)
{
    size_t count = piece_count(tail);
    TailPiece next = {tail->total + n, stream};

    if (count > 0 && piece(tail, count - 1)->stream == stream) {
        piece(tail, count - 1)->end = next.end;
        return 0;
    }
    if (count >= LIMIT_PIECES)
        forget(tail, (size_t)(piece(tail, 0)->end - tail_begin(tail)));
    return buf_append(&tail->pieces, &next, sizeof(next));
}

void tail_write(Tail *tail, unsigned stream, const uint8_t *bytes, size_t n)
{
    size_t kept = MIN(n, (size_t)LIMIT_TAIL);

    if (tail->bytes.size + kept > LIMIT_TAIL)
        forget(tail, tail->bytes.size + kept - LIMIT_TAIL);
    if (extend(tail, stream, n) < 0 || buf_append(&tail->bytes, bytes + n - kept, kept) < 0) {
        buf_clear(&tail->bytes);
        buf_clear(&tail->pieces);
    }
    tail->total += n;
}

TailRun tail_run(const Tail *tail, uint64_t from, size_t most)
{
    for (size_t i = 0; i < piece_count(tail); i++) {
        const TailPiece *found = piece(tail, i);

        if (from < found->end)
            return (TailRun){found->stream, buf_head(&tail->bytes) + (from - tail_begin(tail)),
                             (size_t)MIN(found->end - from, (uint64_t)most)};
    }
    return (TailRun){0};
}
