#include "clients/c/network.h"

#include <string.h>

#include "clients/c/answer.h"

static int check(const LimpetBinding *binding, Problem *problem)
{
    if (!binding->url)
        return problem_set(problem, ERR_BAD_REQUEST, "bindings: %s has no url", binding->name);
    for (size_t i = 0; binding->headers && binding->headers[i]; i++)
        if (!strchr(binding->headers[i], ':'))
            return problem_set(problem, ERR_BAD_REQUEST,
                               "bindings: a header of %s does not have the form 'Name: value'",
                               binding->name);
    return 0;
}

int bindings_check(const LimpetBinding *bindings, Problem *problem)
{
    int r = 0;

    for (size_t i = 0; r == 0 && bindings && bindings[i].name; i++)
        r = check(&bindings[i], problem);
    return r;
}

static size_t count(const char *const *texts)
{
    size_t n = 0;

    while (texts && texts[n])
        n++;
    return n;
}

static void write_headers(Writer *w, const char *const *headers)
{
    size_t n = count(headers);

    write_map(w, n);
    for (size_t i = 0; i < n; i++) {
        size_t name = strcspn(headers[i], ":"), space = strspn(headers[i] + name + 1, " \t");

        write_text_n(w, headers[i], name);
        write_text(w, headers[i] + name + 1 + space);
    }
}

static void write_bindings(Writer *w, const void *source)
{
    const LimpetBinding *bindings = source;
    size_t n = 0;

    while (bindings[n].name)
        n++;
    write_map(w, n);
    for (size_t i = 0; i < n; i++) {
        write_text(w, bindings[i].name);
        write_map(w, 2);
        write_key(w, "url");
        write_text(w, bindings[i].url);
        write_key(w, "headers");
        write_headers(w, bindings[i].headers);
    }
}

Value bindings_say(const LimpetBinding *bindings)
{
    return (Value){.write = bindings ? write_bindings : NULL, .source = bindings};
}

static void write_texts(Writer *w, const void *source)
{
    const char *const *texts = source;
    size_t n = count(texts);

    write_array(w, n);
    for (size_t i = 0; i < n; i++)
        write_text(w, texts[i]);
}

Value texts_say(const char *const *texts)
{
    return (Value){.write = texts ? write_texts : NULL, .source = texts};
}

/* ---- changing it ---- */

static int read_bindings(LimpetNetwork *ret, const msgpack_object_map *said, Arena *arena, Problem *problem)
{
    LimpetBinding *bindings = arena_new(arena, said->size, sizeof(*bindings));
    int r = 0;

    for (uint32_t i = 0; r == 0 && bindings && i < said->size; i++) {
        const msgpack_object *name = &said->ptr[i].key, *value = &said->ptr[i].val;
        MsgBinding binding;

        if (name->type != MSGPACK_OBJECT_STR || value->type != MSGPACK_OBJECT_MAP)
            return problem_set(problem, ERR_BAD_REQUEST, "a binding makes no sense");
        r = reply_decode(&binding, MsgBinding, &value->via.map, problem);
        bindings[i].name = arena_text(arena, (Text){name->via.str.ptr, name->via.str.size});
        bindings[i].url = r == 0 ? arena_text(arena, binding.url) : NULL;
    }
    ret->bindings = bindings;
    ret->n_bindings = said->size;
    return r;
}

static int read_network(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetNetwork *network = value;
    MsgSetNetworkReply body;
    int r = reply_decode(&body, MsgSetNetworkReply, map, problem);

    if (r < 0)
        return r;
    texts_read(&network->allow, &network->n_allow, &body.allow, arena);
    return read_bindings(network, body.bindings.map, arena, problem);
}

int limpet_set_network(LimpetClient *client, const char *session, const char *const *allow,
                       const LimpetBinding *bindings, LimpetNetwork **ret)
{
    const MsgSetNetwork said = {
        .session = text_of(session), .allow = texts_say(allow), .bindings = bindings_say(bindings)};
    ClientCall call = {.repeatable = true};
    void *network;
    int r;

    client->problem = PROBLEM_NULL;
    r = bindings_check(bindings, &client->problem);
    if (r == 0) {
        client_begin(client, &call, MSG_SET_NETWORK, MsgSetNetwork, &said);
        r = answer_call(client, &call, sizeof(LimpetNetwork), read_network, &network);
    }
    if (r == 0 && ret)
        *ret = network;
    else if (r == 0)
        answer_free(network);
    return client_result(client, r);
}

void limpet_network_free(LimpetNetwork *network)
{
    answer_free(network);
}

char *limpet_network_json(const LimpetNetwork *network)
{
    return answer_json(network);
}
