#include "host/egress/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/network/network.h"

typedef struct FieldLines {
    const char *next, *end;
} FieldLines;

/* ---- fields ---- */

ssize_t fields_end(const uint8_t *bytes, size_t size)
{
    size_t line = 0; /* where it begins */

    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') {
            if (i == line || bytes[i - 1] != '\r')
                return -EPROTO;
            if (i == line + 1)
                return (ssize_t)i + 1;
            line = i + 1;
        } else if (bytes[i] == '\r') {
            if (i + 1 < size && bytes[i + 1] != '\n')
                return -EPROTO;
        } else if ((bytes[i] < ' ' && bytes[i] != '\t') || bytes[i] == 0x7f) {
            return -EPROTO;
        }
    }
    return 0;
}

/* The lines of a head that has an end, without it. */
static void fields_begin(FieldLines *lines, const uint8_t *bytes, size_t size)
{
    *lines = (FieldLines){(const char *)bytes, (const char *)bytes + size};
}

static bool fields_next_line(FieldLines *lines, Text *ret)
{
    const char *end = memchr(lines->next, '\n', (size_t)(lines->end - lines->next));

    if (!end || end - lines->next < 2) /* the empty one */
        return false;
    *ret = (Text){lines->next, (size_t)(end - lines->next) - 1};
    lines->next = end + 1;
    return true;
}

static bool fields_is_token(Text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", text.data[i]))
            return false;
    return text.size > 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static Text trim(Text text)
{
    while (text.size > 0 && is_space(*text.data)) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* "name: value", the value without space around it. False: it is none, or goes on from the line before. */
static bool fields_split(Text line, Text *ret_name, Text *ret_value)
{
    const char *colon = memchr(line.data, ':', line.size);

    if (!colon)
        return false;
    *ret_name = (Text){line.data, (size_t)(colon - line.data)};
    *ret_value = trim((Text){colon + 1, line.size - ret_name->size - 1});
    return fields_is_token(*ret_name);
}

/* Returns whether a list with commas has the word, regardless of case. */
static bool fields_list_has(Text list, Text word)
{
    while (list.size > 0) {
        const char *comma = memchr(list.data, ',', list.size);
        size_t n = comma ? (size_t)(comma - list.data) : list.size;
        Text item = trim((Text){list.data, n});

        if (item.size == word.size && strncasecmp(item.data, word.data, word.size) == 0)
            return true;
        list.data += n + (comma != NULL);
        list.size -= n + (comma != NULL);
    }
    return false;
}

/* Returns whether the field of that name is about the connection and is not passed on. */
static bool fields_are_of_connection(Text name)
{
    static const char *const names[] = {"connection", "content-length", "expect",
                                        "host",       "keep-alive",     "te",
                                        "trailer",    "upgrade",        "transfer-encoding"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (name.size == strlen(names[i]) && strncasecmp(name.data, names[i], name.size) == 0)
            return true;
    return name.size >= 6 && strncasecmp(name.data, "proxy-", 6) == 0;
}

/* ---- requests ---- */

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

/* ---- chunks ---- */

/* Place in the body where the next byte belongs. */
enum {
    IN_SIZE,      /* hexadecimal digits */
    IN_EXTENSION, /* after a semicolon, to the end of the line */
    AT_SIZE_END,  /* the '\n' of that line */
    IN_DATA,
    AT_DATA_CR,
    AT_DATA_END,
    IN_TRAILER, /* lines after the last chunk, up to an empty one */
    AT_TRAILER_END,
    ENDED,
};

#define DIGITS_MAX 15u
#define LINE_MAX_  4096u /* an extension; all trailers */

void chunks_begin(Chunks *chunks)
{
    *chunks = (Chunks){.state = IN_SIZE};
}

bool chunks_ended(const Chunks *chunks)
{
    return chunks->state == ENDED;
}

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static int in_size(Chunks *chunks, uint8_t byte)
{
    int digit = digit_of(byte);

    if (digit >= 0) {
        chunks->left = chunks->left * 16 + (uint64_t)digit;
        return ++chunks->digits > DIGITS_MAX ? -EPROTO : 0;
    }
    if (chunks->digits == 0 || (byte != '\r' && byte != ';'))
        return -EPROTO;
    chunks->state = byte == '\r' ? AT_SIZE_END : IN_EXTENSION;
    return 0;
}

static int in_line(Chunks *chunks, uint8_t byte, int next)
{
    if (byte == '\r')
        chunks->state = next;
    else if ((byte < ' ' && byte != '\t') || ++chunks->line > LINE_MAX_)
        return -EPROTO;
    return 0;
}

static void after_size(Chunks *chunks)
{
    chunks->state = chunks->left > 0 ? IN_DATA : IN_TRAILER;
    chunks->digits = 0;
    chunks->line = 0;
}

/* A byte that is no data. `line` counts what an empty line does not have; of trailers, from the last line on.
 */
static int step(Chunks *chunks, uint8_t byte)
{
    switch (chunks->state) {
    case IN_SIZE:
        return in_size(chunks, byte);
    case IN_EXTENSION:
        return in_line(chunks, byte, AT_SIZE_END);
    case AT_SIZE_END:
        after_size(chunks);
        return byte == '\n' ? 0 : -EPROTO;
    case AT_DATA_CR:
        chunks->state = AT_DATA_END;
        return byte == '\r' ? 0 : -EPROTO;
    case AT_DATA_END:
        chunks->state = IN_SIZE;
        return byte == '\n' ? 0 : -EPROTO;
    case IN_TRAILER:
        chunks->digits += byte != '\r';
        return in_line(chunks, byte, AT_TRAILER_END);
    case AT_TRAILER_END:
        chunks->state = chunks->digits > 0 ? IN_TRAILER : ENDED;
        chunks->digits = 0;
        return byte == '\n' ? 0 : -EPROTO;
    default:
        return -EPROTO;
    }
}

ssize_t chunks_take(Chunks *chunks, const uint8_t *bytes, size_t size, Buf *ret)
{
    size_t at = 0;

    while (at < size && chunks->state != ENDED) {
        size_t n = (size_t)MIN((uint64_t)(size - at), chunks->left);

        if (chunks->state != IN_DATA) {
            if (step(chunks, bytes[at++]) < 0)
                return -EPROTO;
            continue;
        }
        if (buf_append(ret, bytes + at, n) < 0)
            return -EPROTO;
        at += n;
        chunks->left -= n;
        if (chunks->left == 0)
            chunks->state = AT_DATA_CR;
    }
    return (ssize_t)at;
}

/* ---- answers ---- */

void answer_init(HttpAnswer *answer, bool to_head, bool may_chunk, bool keeps)
{
    *answer = (HttpAnswer){.to_head = to_head, .may_chunk = may_chunk, .keeps = keeps};
}

void answer_deinit(HttpAnswer *answer)
{
    buf_deinit(&answer->head);
    free(answer->origin);
    free(answer->path);
    free(answer->name);
}

int answer_set_origin(HttpAnswer *answer, const char *origin, const char *path, const char *name)
{
    answer->origin = strdup(origin);
    answer->path = strdup(path);
    answer->name = strdup(name);
    return answer->origin && answer->path && answer->name ? 0 : -ENOMEM;
}

static int append(Buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

static int append_field(Buf *buf, Text name, Text value)
{
    int r = buf_append(buf, name.data, name.size);

    if (r == 0)
        r = append(buf, ": ");
    if (r == 0)
        r = buf_append(buf, value.data, value.size);
    return r < 0 ? r : append(buf, "\r\n");
}

/* "HTTP/1.1 200 OK", or another version, and perhaps nothing behind the number. */
static int begin(HttpAnswer *answer, Text line)
{
    char text[64];
    unsigned status = 0;
    const char *space = memchr(line.data, ' ', line.size);
    int n;

    if (space)
        for (const char *digit = space + 1; digit < line.data + line.size && digit < space + 4; digit++)
            status = *digit >= '0' && *digit <= '9' ? status * 10 + (unsigned)(*digit - '0') : 0;
    if (status < 100 || status > 999)
        return -EPROTO;
    answer->status = status;
    answer->has_length = false;
    buf_clear(&answer->head);
    n = snprintf(text, sizeof(text), "HTTP/1.1 %u", status);
    if (buf_append(&answer->head, text, (size_t)n) < 0)
        return -ENOMEM;
    n = (int)(space + 4 < line.data + line.size ? line.data + line.size - space - 4 : 0);
    if (buf_append(&answer->head, n > 0 ? space + 4 : " ", n > 0 ? (size_t)n : 1) < 0)
        return -ENOMEM;
    return append(&answer->head, "\r\n");
}

/* A `location` of the binding's own server is one of the binding; any other is for the sandbox to follow,
 * with what it may. */
static int add_location(HttpAnswer *answer, Text name, Text value)
{
    char *own _cleanup_(freep) = NULL;
    size_t origin = strlen(answer->origin) - 1, path = strlen(answer->path), n = 0;
    const char *port = strrchr(answer->origin, ':');
    size_t bare = (size_t)(port - answer->origin); /* without the port, where that is the usual one */
    bool usual = strcmp(port, strncmp(answer->origin, "https", 5) == 0 ? ":443/" : ":80/") == 0;

    if (value.size > origin && strncasecmp(value.data, answer->origin, origin) == 0 &&
        value.data[origin] == '/')
        n = origin;
    else if (usual && value.size > bare && strncasecmp(value.data, answer->origin, bare) == 0 &&
             value.data[bare] == '/')
        n = bare;
    if (n == 0 && !(value.size > 0 && *value.data == '/' && !(value.size > 1 && value.data[1] == '/')))
        return append_field(&answer->head, name, value);
    value.data += n;
    value.size -= n;
    if (value.size >= path && strncmp(value.data, answer->path, path) == 0) {
        value.data += path;
        value.size -= path;
    }
    if (asprintf(&own, "http://%s" NETWORK_DOMAIN "%.*s", answer->name, (int)value.size, value.data) < 0) {
        own = NULL;
        return -ENOMEM;
    }
    return append_field(&answer->head, name, text_of(own));
}

static int add_field(HttpAnswer *answer, Text line)
{
    Text name, value;

    if (!fields_split(line, &name, &value))
        return -EPROTO;
    if (name.size == 14 && strncasecmp(name.data, "content-length", 14) == 0) {
        answer->has_length = true;
        return append_field(&answer->head, name, value);
    }
    if (fields_are_of_connection(name))
        return 0;
    if (answer->origin && name.size == 8 && strncasecmp(name.data, "location", 8) == 0)
        return add_location(answer, name, value);
    return append_field(&answer->head, name, value);
}

static bool has_body(const HttpAnswer *answer)
{
    return !answer->to_head && answer->status != 204 && answer->status != 304;
}

static int end_head(HttpAnswer *answer, Buf *ret)
{
    int r = 0;

    if (answer->status < 200)
        return answer->status == 101 ? -EPROTO : 0; /* an interim answer: another follows */
    answer->begun = true;
    answer->chunked = has_body(answer) && !answer->has_length && answer->may_chunk;
    if (has_body(answer) && !answer->has_length && !answer->may_chunk)
        answer->keeps = false;
    if (answer->chunked)
        r = append(&answer->head, "Transfer-Encoding: chunked\r\n");
    if (r == 0)
        r = append(&answer->head,
                   answer->keeps ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
    return r < 0 ? r : buf_append(ret, buf_head(&answer->head), answer->head.size);
}

int answer_line(HttpAnswer *answer, Text line, Buf *ret)
{
    while (line.size > 0 && (line.data[line.size - 1] == '\n' || line.data[line.size - 1] == '\r'))
        line.size--;
    for (size_t i = 0; i < line.size; i++)
        if ((unsigned char)line.data[i] < ' ' && line.data[i] != '\t')
            return -EPROTO;
    if (answer->begun) /* trailers of a body in chunks */
        return 0;
    if (line.size == 0)
        return end_head(answer, ret);
    if (line.size > 5 && strncmp(line.data, "HTTP/", 5) == 0)
        return begin(answer, line);
    return answer->head.size > 0 ? add_field(answer, line) : -EPROTO;
}

int answer_body(HttpAnswer *answer, const void *bytes, size_t size, Buf *ret)
{
    char length[24];
    int n = snprintf(length, sizeof(length), "%zx\r\n", size), r = 0;

    if (size == 0 || !answer->begun)
        return size == 0 ? 0 : -EPROTO;
    if (answer->chunked)
        r = buf_append(ret, length, (size_t)n);
    if (r == 0)
        r = buf_append(ret, bytes, size);
    return r == 0 && answer->chunked ? append(ret, "\r\n") : r;
}

int answer_end(HttpAnswer *answer, Buf *ret)
{
    return answer->chunked ? append(ret, "0\r\n\r\n") : 0;
}
