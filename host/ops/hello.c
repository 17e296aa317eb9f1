#include "host/engine/engine.h"
#include "host/ops.h"

typedef struct Hello {
    uint64_t protocol;
    Text peer;
} Hello;

static const char *const features[] = {
#define FEATURE(name, meaning) name,
#include "proto/features.def"
#undef FEATURE
};

static const Field fields[] = {
    FIELD(FIELD_UINT, Hello, protocol, true, 0),
    FIELD(FIELD_TEXT, Hello, peer, true, 128),
};

static void write_features(Writer *w)
{
    write_key(w, "features");
    write_array(w, ARRAY_SIZE(features));
    for (size_t i = 0; i < ARRAY_SIZE(features); i++)
        write_text(w, features[i]);
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    const EngineOps *engine = controller->engine->ops;
    Buf reply _cleanup_(buf_deinit) = BUF_NULL;
    Hello hello = {0};
    Writer w;

    if (!op_decode(request, &hello, fields, ARRAY_SIZE(fields), body))
        return;
    if (hello.protocol != PROTOCOL_VERSION) {
        request_fail_text(request, ERR_PROTOCOL_MISMATCH,
                          "this controller speaks protocol %d, the client %llu; upgrade the older one",
                          PROTOCOL_VERSION, (unsigned long long)hello.protocol);
        return;
    }
    writer_init(&w, &reply);
    write_map(&w, 7);
    write_key(&w, "protocol");
    write_uint(&w, PROTOCOL_VERSION);
    write_key(&w, "peer");
    write_text(&w, "limpetd/" LIMPET_VERSION);
    write_key(&w, "pid");
    write_uint(&w, (uint64_t)getpid());
    write_key(&w, "engine");
    write_text(&w, engine->name);
    write_key(&w, "image");
    write_text(&w, engine->default_image(controller->engine));
    write_key(&w, "warning");
    write_text(&w, engine->isolates
                       ? NULL
                       : "the engine 'local' does not isolate: code runs as this user, on this machine");
    write_features(&w);
    writer_finish(&w);
    request_reply(request, &reply);
}

const Op op_hello = {.kind = MSG_HELLO, .handle = handle};
