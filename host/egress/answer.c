#include "host/egress/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/egress/fields.h"
#include "host/network/network.h"

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
