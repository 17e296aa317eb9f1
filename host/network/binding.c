/* Bindings, as the options of a session have them. What is in their headers is secret: no problem repeats it.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "host/network/internal.h"
#include "host/network/say.h"

void network_free_bindings(Network *network)
{
    for (size_t i = 0; i < network->n_bindings; i++) {
        NetworkBinding *binding = &network->bindings[i];

        for (size_t k = 0; k < binding->n; k++) {
            if (binding->headers[k].value)
                explicit_bzero(binding->headers[k].value, strlen(binding->headers[k].value));
            free(binding->headers[k].name);
            free(binding->headers[k].value);
        }
        free(binding->headers);
        free(binding->path);
    }
    free(network->bindings);
}

static int refuse(const NetworkBinding *binding, Problem *problem, const char *what)
{
    return problem_set(problem, ERR_BAD_REQUEST, "bindings: %s: %s", binding->name, what);
}

static int read_name(NetworkBinding *ret, const msgpack_object *name, Problem *problem)
{
    const char *text = name->via.str.ptr;
    uint32_t n = name->via.str.size;
    bool good = n > 0 && n < sizeof(ret->name) && text[0] != '-' && text[n - 1] != '-';

    for (uint32_t i = 0; good && i < n; i++)
        good = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') || text[i] == '-';
    if (!good)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "bindings: a name has 1 to %zu characters of a-z 0-9 -, and neither begins nor ends with -",
            sizeof(ret->name) - 1);
    memcpy(ret->name, text, n);
    ret->name[n] = '\0';
    return 0;
}

static bool is_path(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("?#\\", text[i]))
            return false;
    return true;
}

static bool has_scheme(Text *url, const char *scheme)
{
    size_t n = strlen(scheme);

    if (url->size < n || strncasecmp(url->data, scheme, n) != 0)
        return false;
    url->data += n;
    url->size -= n;
    return true;
}

static int read_url(NetworkBinding *ret, Text url, Problem *problem)
{
    static const char form[] =
        "`url` is http:// or https://, a host, perhaps a port and a path, and nothing else; "
        "what is secret belongs in `headers`";
    size_t authority, host;
    const char *slash;

    ret->is_secure = has_scheme(&url, "https://");
    if (!ret->is_secure && !has_scheme(&url, "http://"))
        return refuse(ret, problem, form);
    ret->port = ret->is_secure ? 443 : 80;
    slash = memchr(url.data, '/', url.size);
    authority = slash ? (size_t)(slash - url.data) : url.size;
    if (!network_split(url.data, authority, &host, &ret->port) ||
        !host_normalise(ret->host, url.data, host) || !is_path(url.data + authority, url.size - authority))
        return refuse(ret, problem, form);
    while (url.size > authority && url.data[url.size - 1] == '/')
        url.size--;
    ret->path = text_dup((Text){url.data + authority, url.size - authority});
    return ret->path ? 0 : refuse(ret, problem, "out of memory");
}

static bool is_token(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", text[i]))
            return false;
    return n > 0;
}

static bool is_value(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
            return false;
    return true;
}

/* Returns whether a header field says how a message is passed on: those are ours. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"connection", "content-length", "expect",
                                       "host",       "keep-alive",     "te",
                                       "trailer",    "upgrade",        "transfer-encoding"};

    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        if (strcasecmp(name, ours[i]) == 0)
            return true;
    return strncasecmp(name, "proxy-", 6) == 0;
}

static int read_header(NetworkBinding *ret, const msgpack_object_kv *pair, Problem *problem)
{
    const msgpack_object_str *name = &pair->key.via.str, *value = &pair->val.via.str;
    NetworkHeader *header = &ret->headers[ret->n];

    if (pair->val.type != MSGPACK_OBJECT_STR || !is_token(name->ptr, name->size) ||
        !is_value(value->ptr, value->size))
        return refuse(ret, problem, "`headers` maps names of HTTP headers to text of one line");
    if (value->size > LIMIT_BINDING_HEADER)
        return refuse(ret, problem, "the value of a header is too long");
    header->name = text_dup((Text){name->ptr, name->size});
    header->value = text_dup((Text){value->ptr, value->size});
    ret->n++;
    if (!header->name || !header->value)
        return refuse(ret, problem, "out of memory");
    return is_ours(header->name)
               ? refuse(ret, problem, "a header that says how messages are passed on cannot be set")
               : 0;
}

static int read_headers(NetworkBinding *ret, const msgpack_object_map *headers, Problem *problem)
{
    int r = 0;

    if (!headers || headers->size == 0)
        return 0;
    if (headers->size > LIMIT_BINDING_HEADERS)
        return refuse(ret, problem, "too many headers");
    ret->headers = calloc(headers->size, sizeof(*ret->headers));
    if (!ret->headers)
        return refuse(ret, problem, "out of memory");
    for (uint32_t i = 0; r == 0 && i < headers->size; i++)
        r = read_header(ret, &headers->ptr[i], problem);
    return r;
}

static int read_binding(NetworkBinding *ret, const msgpack_object_kv *pair, Problem *problem)
{
    MsgBinding said;
    Problem why = PROBLEM_NULL;
    int r = read_name(ret, &pair->key, problem);

    if (r < 0)
        return r;
    if (pair->val.type != MSGPACK_OBJECT_MAP || body_decode(&said, MsgBinding, &pair->val.via.map, &why) < 0)
        return refuse(ret, problem, "it is {\"url\": text, \"headers\": {name: text}}");
    r = read_url(ret, said.url, problem);
    return r < 0 ? r : read_headers(ret, said.headers.map, problem);
}

int network_read_bindings(Network *network, const msgpack_object_map *bindings, Problem *problem)
{
    int r = 0;

    if (!bindings || bindings->size == 0)
        return 0;
    if (bindings->size > LIMIT_BINDINGS)
        return problem_set(problem, ERR_TOO_LARGE, "bindings: there may be at most %u", LIMIT_BINDINGS);
    network->bindings = calloc(bindings->size, sizeof(*network->bindings));
    if (!network->bindings)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    for (uint32_t i = 0; r == 0 && i < bindings->size; i++)
        r = read_binding(&network->bindings[network->n_bindings++], &bindings->ptr[i], problem);
    return r;
}

/* ---- without what is secret ---- */

static void write_binding(Writer *w, const msgpack_object *binding)
{
    const msgpack_object *url =
        binding->type == MSGPACK_OBJECT_MAP ? map_find(&binding->via.map, "url") : NULL;

    write_map(w, 1);
    write_key(w, "url");
    write_object(w, url);
}

void network_write_public(Writer *w, const void *source)
{
    const msgpack_object_map *bindings = source;

    write_map(w, bindings->size);
    for (uint32_t i = 0; i < bindings->size; i++) {
        write_object(w, &bindings->ptr[i].key);
        write_binding(w, &bindings->ptr[i].val);
    }
}
