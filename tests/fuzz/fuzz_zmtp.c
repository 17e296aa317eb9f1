/* The peer sends anything, cut into pieces anyhow; the first byte of the input says how, and which of the two
 * we are. Whole and in pieces the same messages must come out. */
#include <errno.h>
#include <stdlib.h>

#include "proto/zmtp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Outcome {
    ZmtpState state;
    size_t messages, multiparts, bytes;
    uint64_t hash;
    size_t answered;
} Outcome;

static int take_all(Zmtp *zmtp, Buf *in, Buf *out, Outcome *outcome)
{
    ZmtpFrame frame;
    int r;

    while ((r = zmtp_next(zmtp, in, out, &frame)) == 1) {
        outcome->messages++;
        outcome->multiparts += frame.multipart;
        outcome->bytes += frame.size;
        for (size_t i = 0; i < frame.size; i++)
            outcome->hash = outcome->hash * 31 + frame.data[i];
        buf_consume(in, frame.used);
    }
    if (r < 0 && zmtp->state != ZMTP_FAILED)
        abort();
    return r;
}

static Outcome run(ZmtpRole role, const uint8_t *data, size_t size, size_t piece)
{
    Buf in = BUF_NULL, out = BUF_NULL;
    Outcome outcome = {0};
    Zmtp zmtp;

    if (zmtp_init(&zmtp, role, 1000, &out) < 0)
        abort();
    while (size > 0) {
        size_t n = MIN(piece, size);
        if (buf_append(&in, data, n) < 0)
            abort();
        data += n;
        size -= n;
        if (take_all(&zmtp, &in, &out, &outcome) < 0)
            break;
    }
    outcome.state = zmtp.state;
    outcome.answered = out.size;
    buf_deinit(&in);
    buf_deinit(&out);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t piece = 1 + data[0] % 64;
    ZmtpRole role = data[0] & 0x40 ? ZMTP_ROUTER : ZMTP_DEALER;
    Outcome whole = run(role, data + 1, size - 1, SIZE_MAX), pieces = run(role, data + 1, size - 1, piece);

    if (whole.state != pieces.state || whole.messages != pieces.messages ||
        whole.multiparts != pieces.multiparts || whole.bytes != pieces.bytes || whole.hash != pieces.hash ||
        whole.answered != pieces.answered)
        abort();
    return 0;
}
