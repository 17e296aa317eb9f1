#include "clients/c/options.h"

#include <math.h>
#include <string.h>

#include "clients/c/client.h"

/* ---- what a session may reach ---- */

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

/* Checks that each binding has a name, a url, and headers as "Name: value". 0, or -EPROTO with the problem
 * set. NULL will do. */
static int bindings_check(const LimpetBinding *bindings, Problem *problem)
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

/* Returns the wire form of bindings, which must be there until they are written; nothing of NULL. */
static Value bindings_say(const LimpetBinding *bindings)
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

static Value texts_say(const char *const *texts)
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
    LimpetNetwork *network;
    int r;

    client->problem = PROBLEM_NULL;
    r = bindings_check(bindings, &client->problem);
    if (r < 0)
        return client_result(client, r);
    client_begin(client, &call, MSG_SET_NETWORK, MsgSetNetwork, &said);
    r = answer_call(client, &call, sizeof(LimpetNetwork), read_network, &network);
    if (!r && ret)
        *ret = network;
    else if (!r)
        limpet_network_free(network);
    return r;
}

/* ---- options ---- */

int env_check(const char *const *env, Problem *problem)
{
    for (size_t i = 0; env && env[i]; i++)
        if (!strchr(env[i], '=') || env[i][0] == '=')
            return problem_set(problem, ERR_BAD_REQUEST, "env: '%s' does not have the form NAME=value",
                               env[i]);
    return 0;
}

/* Before a directory of the controller's machine. */
#define HOST "host:"

static bool is_hosts(const char *data)
{
    return strncmp(data, HOST, strlen(HOST)) == 0;
}

bool options_copies_data(const LimpetClient *client, const LimpetOptions *options)
{
    return options->data && !is_hosts(options->data) && client->address.remote;
}

int options_check(const LimpetClient *client, const LimpetOptions *options, Problem *problem)
{
    int r = env_check(options ? options->env : NULL, problem);

    if (r == 0 && options && options_copies_data(client, options))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "data: '%s' is a directory of this machine, and the controller is on another one: open a "
            "session with it, to which it is copied, or name a directory of that machine as "
            "'host:/PATH'",
            options->data);
    return r < 0 || !options ? r : bindings_check(options->bindings, problem);
}

static Text say_directory(const char *given)
{
    return text_of(given && is_hosts(given) ? given + strlen(HOST) : given);
}

/* The last of two settings of a name holds, as in env(1). */
static bool set_again(const char *const *env, size_t place)
{
    size_t length = strcspn(env[place], "=") + 1;

    for (size_t i = place + 1; env[i]; i++)
        if (strncmp(env[i], env[place], length) == 0)
            return true;
    return false;
}

static void write_env(Writer *w, const void *source)
{
    const char *const *env = source;
    size_t pairs = 0;

    for (size_t i = 0; env[i]; i++)
        pairs += !set_again(env, i);
    write_map(w, pairs);
    for (size_t i = 0; env[i]; i++) {
        size_t name = strcspn(env[i], "=");

        if (set_again(env, i))
            continue;
        write_text_n(w, env[i], name);
        write_text(w, env[i] + name + 1);
    }
}

static double say_seconds(double seconds)
{
    return seconds == 0 ? NAN : seconds == LIMPET_FOREVER ? 0 : seconds;
}

Value env_say(const char *const *env)
{
    return (Value){.write = env ? write_env : NULL, .source = env};
}

#define SAY_LIST(given)      texts_say(given)
#define SAY_BINDINGS(given)  bindings_say(given)
#define SAY_SECONDS(given)   say_seconds(given)
#define SAY_NUMBER(given)    ((given) == 0 ? NAN : (given))
#define SAY_COUNT(given)     ((given) == 0 ? NO_UINT : (given))
#define SAY_SIZE(given)      ((Size){.bytes = NO_UINT, .text = text_of(given)})
#define SAY_CHOICE(given)    text_of(given)
#define SAY_TEXT(given)      text_of(given)
#define SAY_DIRECTORY(given) say_directory(given)
#define SAY_PAIRS(given)     env_say(given)

MsgOptions options_say(const LimpetOptions *options)
{
    static const LimpetOptions none;

    if (!options)
        options = &none;
    return (MsgOptions){
#define SESSION_OPTION(name, kind, ...) .name = SAY_##kind(options->name),
#include "proto/session_options.def"
    };
}
