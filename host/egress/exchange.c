/* An exchange: a request of a sandbox and its answer, passed on by libcurl to a server, or to where a binding
 * leads, with what the binding adds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/egress/http.h"
#include "host/egress/internal.h"
#include "host/http/multi.h"

#define CONNECT_SECONDS 30L
#define RESPONSE_HEAD   (256L << 10)
#define PIECE           (64L << 10)

/* libcurl's connections to servers, made by the rules that what is served has. */
struct Outward {
    Multi multi;
    size_t exchanges;
    bool retired;
};

struct Exchange {
    Caller *caller;
    Outward *outward;
    CURL *easy;
    struct curl_slist *fields;
    HttpAnswer answer;
    HeadBody framing;
    uint64_t left; /* of a body with a length */
    Chunks chunks;
    Buf body; /* not taken by libcurl yet */
    bool body_paused, answer_paused;
    bool address_refused;
    IpAddress refused;
};

/* ---- libcurl's connections ---- */

static void outward_free(Outward *outward)
{
    multi_deinit(&outward->multi);
    free(outward);
}

void outward_retire(Outward *outward)
{
    outward->retired = true;
    if (outward->exchanges == 0)
        outward_free(outward);
}

static void on_ended(CURL *easy, CURLcode code);

static Outward *outward_of(Served *served)
{
    Outward *outward = served->outward ? served->outward : calloc(1, sizeof(*outward));

    if (outward && !served->outward && multi_init(&outward->multi, served->egress->loop, on_ended) < 0) {
        free(outward);
        return NULL;
    }
    return served->outward = outward;
}

/* The address that libcurl is about to connect to, and no other. */
static curl_socket_t open_socket(void *userdata, curlsocktype purpose, struct curl_sockaddr *to)
{
    Exchange *exchange = userdata;
    const Caller *caller = exchange->caller;
    const Network *network = &caller->served->network;
    const NetworkBinding *binding = network_binding(network, caller->host);
    IpAddress address;
    bool good = ip_from(&address, &to->addr);

    if (good && binding)
        good = network_binding_allows_address(binding, &address, ip_is_own(&address));
    else if (good)
        good = network_allows_address(network, &address, caller->port, ip_is_own(&address));
    if (good)
        return multi_open_socket(userdata, purpose, to);
    exchange->address_refused = true;
    exchange->refused = address;
    return CURL_SOCKET_BAD;
}

/* ---- the body of the request ---- */

static bool body_ended(const Exchange *exchange)
{
    return exchange->framing == BODY_NONE || (exchange->framing == BODY_LENGTH && exchange->left == 0) ||
           (exchange->framing == BODY_CHUNKED && chunks_ended(&exchange->chunks));
}

bool exchange_wants(const Caller *caller)
{
    return !body_ended(caller->exchange) && caller->exchange->body.size < caller_room(caller);
}

/* 0 or -EPROTO. */
static int take_from(Exchange *exchange, Buf *in)
{
    size_t n = in->size;
    ssize_t taken;

    if (exchange->framing == BODY_CHUNKED) {
        taken = chunks_take(&exchange->chunks, buf_head(in), in->size, &exchange->body);
    } else {
        n = (size_t)MIN((uint64_t)n, exchange->left);
        taken = buf_append(&exchange->body, buf_head(in), n) < 0 ? -1 : (ssize_t)n;
        exchange->left -= n;
    }
    if (taken < 0)
        return -1;
    buf_consume(in, (size_t)taken);
    return 0;
}

void exchange_take_body(Caller *caller)
{
    Exchange *exchange = caller->exchange;

    if (!body_ended(exchange) && caller->in.size > 0 && take_from(exchange, &caller->in) < 0) {
        exchange_free(take(caller->exchange));
        caller_refuse(caller, 400, "the body of the request is malformed");
        return;
    }
    if (exchange->body_paused && (exchange->body.size > 0 || body_ended(exchange) || caller->in_ended)) {
        exchange->body_paused = false;
        curl_easy_pause(exchange->easy, exchange->answer_paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
    }
}

/* There is room for more of it. */
static void ask_for_more(Caller *caller)
{
    if (caller->file.loop && exchange_wants(caller) && !caller->in_ended &&
        caller->in.size < caller_room(caller))
        loop_file_change(&caller->file, caller->file.events | EPOLLIN);
}

static size_t on_read(char *to, size_t size, size_t count, void *userdata)
{
    Exchange *exchange = userdata;
    size_t n = MIN(size * count, exchange->body.size);

    if (n > 0) {
        memcpy(to, buf_head(&exchange->body), n);
        buf_consume(&exchange->body, n);
        ask_for_more(exchange->caller);
        return n;
    }
    if (body_ended(exchange))
        return 0;
    if (exchange->caller->in_ended)
        return CURL_READFUNC_ABORT;
    exchange->body_paused = true;
    return CURL_READFUNC_PAUSE;
}

/* ---- the answer ---- */

/* To the sandbox, as far as that takes it. */
static void flush(Caller *caller)
{
    if (buf_send(&caller->out, caller->file.fd) >= 0 && caller->out.size > 0 && caller->file.loop)
        loop_file_change(&caller->file, caller->file.events | EPOLLOUT);
}

static size_t on_field(char *bytes, size_t size, size_t count, void *userdata)
{
    Exchange *exchange = userdata;
    Caller *caller = exchange->caller;

    if (answer_line(&exchange->answer, (Text){bytes, size * count}, &caller->out) < 0)
        return 0;
    flush(caller);
    return size * count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *userdata)
{
    Exchange *exchange = userdata;
    Caller *caller = exchange->caller;

    if (caller->out.size >= caller_room(caller)) {
        exchange->answer_paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (served_is_exhausted(caller->served))
        return 0;
    if (exchange->answer.begun && !exchange->answer.chunked
            ? pass(caller->file.fd, &caller->out, bytes, size * count) < 0
            : answer_body(&exchange->answer, bytes, size * count, &caller->out) < 0)
        return 0;
    caller->received += size * count;
    served_count(caller->served, size * count);
    flush(caller);
    return size * count;
}

void exchange_has_room(Caller *caller)
{
    Exchange *exchange = caller->exchange;

    if (!exchange->answer_paused)
        return;
    exchange->answer_paused = false;
    curl_easy_pause(exchange->easy, exchange->body_paused ? CURLPAUSE_SEND : CURLPAUSE_CONT);
}

/* ---- its end ---- */

void exchange_free(Exchange *exchange)
{
    Outward *outward = exchange->outward;

    curl_multi_remove_handle(outward->multi.handle, exchange->easy);
    curl_easy_cleanup(exchange->easy);
    curl_slist_free_all(exchange->fields);
    answer_deinit(&exchange->answer);
    buf_deinit(&exchange->body);
    free(exchange);
    outward->exchanges--;
    if (outward->retired && outward->exchanges == 0)
        outward_free(outward);
}

static void fail(Caller *caller, const Exchange *exchange, CURLcode code)
{
    char text[IP_TEXT_SIZE];

    if (exchange->address_refused)
        caller_refuse(
            caller, 403,
            "%s leads to %s, which is not an address of the public internet; only a rule that names that "
            "address allows it",
            caller->host, ip_text(text, &exchange->refused));
    else
        caller_refuse(caller, 502, "%s cannot be asked: %s", caller->host, curl_easy_strerror(code));
}

/* Half an answer is not made whole by what we say. */
static void on_ended(CURL *easy, CURLcode code)
{
    Exchange *exchange;
    Caller *caller;
    char outcome[32];

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&exchange);
    caller = exchange->caller;
    caller->exchange = NULL;
    if (!exchange->answer.begun) {
        fail(caller, exchange, code == CURLE_OK ? CURLE_GOT_NOTHING : code);
    } else {
        bool whole = code == CURLE_OK && answer_end(&exchange->answer, &caller->out) == 0;

        snprintf(outcome, sizeof(outcome), "%u%s", exchange->answer.status, whole ? "" : " broken off");
        caller_log(caller, outcome);
        caller->keeps = caller->keeps && whole && exchange->answer.keeps && body_ended(exchange);
        caller_next(caller);
    }
    exchange_free(exchange);
    caller_go_on(caller);
}

/* ---- its beginning ---- */

static bool add_field(Exchange *exchange, Text name, Text value)
{
    char *line _cleanup_(freep) = NULL;
    struct curl_slist *fields;
    int n = asprintf(&line, "%.*s%s%.*s", (int)name.size, name.data, value.size > 0 ? ": " : ";",
                     (int)value.size, value.data);

    if (n < 0) {
        line = NULL;
        return false;
    }
    fields = curl_slist_append(exchange->fields, line);
    explicit_bzero(line, (size_t)n);
    if (fields)
        exchange->fields = fields;
    return fields != NULL;
}

static bool is_set(const NetworkBinding *binding, Text name)
{
    for (size_t i = 0; binding && i < binding->n; i++)
        if (text_is(name, binding->headers[i].name))
            return true;
    return false;
}

/* Sets the header fields of a request. Those that libcurl would add by itself are taken away: "name:" does
 * that. */
static bool set_fields(Exchange *exchange, const HttpHead *head, const NetworkBinding *binding)
{
    static const char *const own[] = {"Accept", "User-Agent", "Content-Type"};
    bool good = true, said[ARRAY_SIZE(own)] = {false};

    for (size_t i = 0; good && i < head->n; i++) {
        const HeadField *field = &head->fields[i];

        if (head_field_is_ours(head, field) || is_set(binding, field->name))
            continue;
        for (size_t k = 0; k < ARRAY_SIZE(own); k++)
            said[k] = said[k] || text_is(field->name, own[k]);
        good = add_field(exchange, field->name, field->value);
    }
    for (size_t i = 0; good && binding && i < binding->n; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(own); k++)
            said[k] = said[k] || strcasecmp(binding->headers[i].name, own[k]) == 0;
        good = add_field(exchange, text_of(binding->headers[i].name), text_of(binding->headers[i].value));
    }
    for (size_t k = 0; good && k < ARRAY_SIZE(own) + 1; k++) {
        char nothing[32];
        struct curl_slist *fields;

        if (k < ARRAY_SIZE(own) && said[k])
            continue;
        snprintf(nothing, sizeof(nothing), "%s:", k < ARRAY_SIZE(own) ? own[k] : "Expect");
        fields = curl_slist_append(exchange->fields, nothing);
        good = fields != NULL;
        exchange->fields = fields ? fields : exchange->fields;
    }
    return good;
}

static bool set_url(Exchange *exchange, const HttpHead *head, const NetworkBinding *binding)
{
    const char *host = binding ? binding->host : head->host, *path = binding ? binding->path : "";
    const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
    const char *slash = head->path.size > 0 && *head->path.data == '/' ? "" : "/";
    char *url _cleanup_(freep) = NULL, *target _cleanup_(freep) = NULL;
    bool secure = binding && binding->is_secure;
    uint16_t port = binding ? binding->port : head->port;

    if (asprintf(&url, "%s://%s%s%s:%u/", secure ? "https" : "http", open, host, close, port) < 0) {
        url = NULL;
        return false;
    }
    if (asprintf(&target, "%s%s%.*s", path, slash, (int)head->path.size, head->path.data) < 0) {
        target = NULL;
        return false;
    }
    if (binding && answer_set_origin(&exchange->answer, url, path, binding->name) < 0)
        return false;
    return curl_easy_setopt(exchange->easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(exchange->easy, CURLOPT_REQUEST_TARGET, target) == CURLE_OK;
}

static bool set_method(Exchange *exchange, const HttpHead *head)
{
    char *method _cleanup_(freep) = text_dup(head->method);
    CURL *easy = exchange->easy;

    if (!method)
        return false;
    if (head->body != BODY_NONE) {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                         head->body == BODY_LENGTH ? (curl_off_t)head->length : (curl_off_t)-1);
    }
    if (text_is(head->method, "HEAD") && head->body == BODY_NONE)
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK;
}

static void set_rest(Exchange *exchange)
{
    CURL *easy = exchange->easy;
    const long piece = MIN(PIECE, (long)caller_room(exchange->caller));

    curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->fields);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_field);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, piece);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, piece);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
}

static Exchange *exchange_new(Caller *caller, const HttpHead *head, const NetworkBinding *binding)
{
    Outward *outward = outward_of(caller->served);
    Exchange *exchange = outward ? calloc(1, sizeof(*exchange)) : NULL;

    if (!exchange)
        return NULL;
    *exchange = (Exchange){.caller = caller, .outward = outward, .framing = head->body, .left = head->length};
    chunks_begin(&exchange->chunks);
    answer_init(&exchange->answer, text_is(head->method, "HEAD"), head->chunks, caller->keeps);
    outward->exchanges++;
    exchange->easy = curl_easy_init();
    if (exchange->easy && set_fields(exchange, head, binding) && set_url(exchange, head, binding) &&
        set_method(exchange, head)) {
        set_rest(exchange);
        if (curl_multi_add_handle(outward->multi.handle, exchange->easy) == CURLM_OK)
            return exchange;
    }
    exchange_free(exchange);
    return NULL;
}

void exchange_begin(Caller *caller, const HttpHead *head, const NetworkBinding *binding)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

    caller->exchange = exchange_new(caller, head, binding);
    if (!caller->exchange || (head->expects && head->body != BODY_NONE &&
                              buf_append(&caller->out, go_on, sizeof(go_on) - 1) < 0)) {
        if (caller->exchange)
            exchange_free(take(caller->exchange));
        caller_refuse(caller, 503, "out of memory");
        return;
    }
    caller->state = EXCHANGES;
}
