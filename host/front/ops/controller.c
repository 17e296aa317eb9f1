/* The controller itself: hello, shutdown. */
#include <string.h>

#include "host/front/ops.h"

/* ---- hello ---- */

static const char *const features[] = {
#define FEATURE(name, meaning) name,
#include "proto/features.def"
#undef FEATURE
};

/* Finds the features for a client. One on another machine has none that needs a descriptor of this
 * machine. */
static size_t find_features(const Request *request, const char **ret)
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(features); i++)
        if (!request->remote ||
            (strcmp(features[i], "descriptors") != 0 && strcmp(features[i], "connect") != 0))
            ret[n++] = features[i];
    return n;
}

static void handle_hello(Front *front, Request *request, const msgpack_object_map *body)
{
    const Sandboxes *sandboxes = front->sandboxes;
    const char *of_client[ARRAY_SIZE(features)];
    const TextList known = {of_client, find_features(request, of_client)};
    MsgHelloReply reply;
    MsgHello hello;

    if (!op_decode(request, &hello, MsgHello, body))
        return;
    if (hello.protocol != PROTOCOL_VERSION) {
        request_fail_text(request, ERR_PROTOCOL_MISMATCH,
                          "this controller speaks protocol %d, the client speaks %llu; upgrade the older one",
                          PROTOCOL_VERSION, (unsigned long long)hello.protocol);
        return;
    }
    reply = (MsgHelloReply){
        .protocol = PROTOCOL_VERSION,
        .peer = text_of("limpetd/" LIMPET_VERSION),
        .pid = (uint64_t)front->paths->pid,
        .engine = text_of(sandboxes_engine(sandboxes)),
        .image = text_of(sandboxes_image(sandboxes, "")),
        .features = value_texts(&known),
    };
    if (!sandboxes_isolate(sandboxes))
        reply.warning =
            text_of("the engine 'local' does not isolate: code runs as this user, on this machine");
    request_answer(request, MsgHelloReply, &reply);
}

const Op op_hello = {.kind = MSG_HELLO, .handle = handle_hello};

/* ---- shutdown ---- */

static void handle_shutdown(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgShutdown shutdown;

    if (!op_decode(request, &shutdown, MsgShutdown, body))
        return;
    if (!request_is_local(request, "shutdown ends the controller"))
        return;
    if (request->user != front->paths->user) {
        request_fail_text(
            request, ERR_DENIED,
            "only root may shut down this controller; close your own sessions with `limpet close`");
        return;
    }
    list_append(&front->shutdown_waiters, &request->link);
    front->shutdown(front->userdata, shutdown.keep);
}

const Op op_shutdown = {.kind = MSG_SHUTDOWN, .handle = handle_shutdown};
