#include "host/session/saved_place.h"

#include "host/sandbox/errand.h"
#include "proto/base/log.h"
#include "proto/schema.h"

static void over(Errand *errand)
{
    errand_over(errand);
    free(errand);
}

static int answer(Errand *errand, const Message *message, Problem *problem)
{
    over(errand);
    return 0;
}

static void failed(Errand *errand, const Problem *problem)
{
    over(errand);
}

static const ErrandOps ops = {.answer = answer, .failed = failed};

void saved_place_remove(Sandbox *sandbox, const char *place)
{
    const MsgFileAsk ask = {.has_remove = true, .remove = {.path = text_of(place), .recursive = true}};
    Errand *errand = calloc(1, sizeof(*errand));

    if (!errand || body_encode(&errand->body, MsgFileAsk, &ask) < 0) {
        free(errand);
        return;
    }
    errand->ops = &ops;
    errand->kind = MSG_FILES;
    errand->lane = ERRAND_SHORT;
    if (errand_begin(errand, sandbox) == 0)
        return;
    buf_deinit(&errand->body);
    free(errand);
}
