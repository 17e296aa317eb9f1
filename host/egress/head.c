#include "host/egress/head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "host/egress/fields.h"

bool text_is(Text text, const char *word)
{
    return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

static int refuse(unsigned *ret_status, unsigned status, Problem *problem, const char *why)
{
    *ret_status = status;
    return problem_set(problem, ERR_BAD_REQUEST, "%s", why);
}

/* ---- the request line ---- */

/* Takes what is before the next space, or all of it. */
static Text take_word(Text *line)
{
    const char *space = memchr(line->data, ' ', line->size);
    Text word = {line->data, space ? (size_t)(space - line->data) : line->size};
    size_t taken = word.size + (space != NULL);

    line->data += taken;
    line->size -= taken;
    return word;
}

static bool is_plain(Text text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] <= ' ' || (unsigned char)text.data[i] >= 0x7f)
            return false;
    return text.size > 0;
}

static bool read_authority(HttpHead *ret, Text authority)
{
    size_t host;

    return network_split(authority.data, authority.size, &host, &ret->port) &&
           host_normalise(ret->host, authority.data, host);
}

/* "http://host:port/path", as a proxy is told. A fragment is nobody's but the client's. */
static bool read_target(HttpHead *ret, Text target)
{
    static const char scheme[] = "http://";
    const size_t n = sizeof(scheme) - 1;
    size_t authority = 0, end;

    if (target.size <= n || strncasecmp(target.data, scheme, n) != 0)
        return false;
    target.data += n;
    target.size -= n;
    while (authority < target.size && !strchr("/?#", target.data[authority]))
        authority++;
    for (end = authority; end < target.size && target.data[end] != '#'; end++)
        ;
    ret->port = 80;
    ret->path = (Text){target.data + authority, end - authority};
    return read_authority(ret, (Text){target.data, authority});
}

static int read_line(HttpHead *ret, Text line, unsigned *ret_status, Problem *problem)
{
    Text target;

    ret->method = take_word(&line);
    target = take_word(&line);
    if (!fields_is_token(ret->method) || ret->method.size > 32 || !is_plain(target))
        return refuse(ret_status, 400, problem, "this is no HTTP request");
    if (!text_is(line, "HTTP/1.1") && !text_is(line, "HTTP/1.0"))
        return refuse(ret_status, 505, problem, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    ret->keeps = ret->chunks = text_is(line, "HTTP/1.1");
    ret->connect = text_is(ret->method, "CONNECT");
    ret->port = 0;
    if (ret->connect ? !read_authority(ret, target) || ret->port == 0 : !read_target(ret, target))
        return refuse(ret_status, 400, problem,
                      "this is a proxy: a request names http://HOST/PATH, or is CONNECT HOST:PORT");
    return 0;
}

/* ---- what the fields say ---- */

static int read_length(HttpHead *ret, Text value, unsigned *ret_status, Problem *problem)
{
    uint64_t length = 0;

    if (value.size == 0 || value.size > 18)
        return refuse(ret_status, 400, problem, "Content-Length is no number");
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return refuse(ret_status, 400, problem, "Content-Length is no number");
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (ret->body != BODY_NONE)
        return refuse(ret_status, 400, problem, "the length of the body is said twice");
    ret->body = BODY_LENGTH;
    ret->length = length;
    return 0;
}

static int read_encoding(HttpHead *ret, Text value, unsigned *ret_status, Problem *problem)
{
    if (!text_is(value, "chunked"))
        return refuse(ret_status, 501, problem, "only the Transfer-Encoding chunked is known");
    if (ret->body != BODY_NONE)
        return refuse(ret_status, 400, problem, "the length of the body is said twice");
    ret->body = BODY_CHUNKED;
    return 0;
}

static int read_field(HttpHead *ret, const HeadField *field, unsigned *ret_status, Problem *problem)
{
    if (text_is(field->name, "content-length"))
        return read_length(ret, field->value, ret_status, problem);
    if (text_is(field->name, "transfer-encoding"))
        return read_encoding(ret, field->value, ret_status, problem);
    if (text_is(field->name, "connection") || text_is(field->name, "proxy-connection")) {
        if (fields_list_has(field->value, (Text){"close", 5}))
            ret->keeps = false;
        else if (fields_list_has(field->value, (Text){"keep-alive", 10}))
            ret->keeps = true;
    }
    if (text_is(field->name, "expect"))
        ret->expects = text_is(field->value, "100-continue");
    return 0;
}

ssize_t head_parse(HttpHead *ret, const uint8_t *bytes, size_t size, unsigned *ret_status, Problem *problem)
{
    FieldLines lines;
    ssize_t end = fields_end(bytes, size);
    Text line;
    int r;

    if (end < 0 || (end == 0 && size >= HEAD_MAX))
        return refuse(ret_status, end < 0 ? 400 : 431, problem,
                      end < 0 ? "this is no HTTP request" : "the head of the request is too large");
    if (end == 0)
        return 0;
    *ret = (HttpHead){0};
    fields_begin(&lines, bytes, (size_t)end);
    if (!fields_next_line(&lines, &line))
        return refuse(ret_status, 400, problem, "this is no HTTP request");
    r = read_line(ret, line, ret_status, problem);
    while (r == 0 && fields_next_line(&lines, &line)) {
        HeadField *field = &ret->fields[ret->n];

        if (ret->n == HEAD_FIELDS_MAX)
            return refuse(ret_status, 431, problem, "the request has too many fields");
        if (!fields_split(line, &field->name, &field->value))
            return refuse(ret_status, 400, problem, "a field of the request is malformed");
        ret->n++;
        r = read_field(ret, field, ret_status, problem);
    }
    if (r == 0 && ret->connect && ret->body != BODY_NONE)
        return refuse(ret_status, 400, problem, "CONNECT has no body");
    return r < 0 ? r : end;
}

/* ---- fields of the connection ---- */

bool head_field_is_ours(const HttpHead *head, const HeadField *field)
{
    if (fields_are_of_connection(field->name))
        return true;
    for (size_t i = 0; i < head->n; i++)
        if (text_is(head->fields[i].name, "connection") &&
            fields_list_has(head->fields[i].value, field->name))
            return true;
    return false;
}
