/* A request to the proxy and its body: whatever is taken is whole, within bounds, and names a host that is
 * plain; read in one piece and in many it is the same. */
#include <stdlib.h>
#include <string.h>

#include "host/egress/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
    if (!good)
        abort();
}

static void check_head(const HttpHead *head)
{
    char again[HOST_SIZE];

    require(host_normalise(again, head->host, strlen(head->host)) && strcmp(again, head->host) == 0);
    require(head->port > 0 && head->n <= HEAD_FIELDS_MAX);
    for (const char *c = head->host; *c; c++)
        require(*c > ' ' && *c < 0x7f && *c != '/' && *c != '@');
    for (size_t i = 0; i < head->path.size; i++)
        require(head->path.data[i] > ' ' && head->path.data[i] < 0x7f && head->path.data[i] != '#');
    for (size_t i = 0; i < head->n; i++) {
        require(!memchr(head->fields[i].name.data, ':', head->fields[i].name.size));
        require(!memchr(head->fields[i].value.data, '\n', head->fields[i].value.size));
        head_field_is_ours(head, &head->fields[i]);
    }
}

/* Takes all of a body in pieces. Returns the bytes taken; negative when it is none. */
static ssize_t take_all(const uint8_t *data, size_t size, size_t piece, Buf *ret)
{
    Chunks chunks;
    size_t at = 0;

    chunks_begin(&chunks);
    while (at < size && !chunks_ended(&chunks)) {
        ssize_t n = chunks_take(&chunks, data + at, MIN(piece, size - at), ret);

        if (n < 0)
            return n;
        require(n > 0 && (size_t)n <= size - at);
        at += (size_t)n;
    }
    return (ssize_t)at;
}

static void check_body(const uint8_t *data, size_t size)
{
    Buf whole _cleanup_(buf_deinit) = BUF_NULL, pieces _cleanup_(buf_deinit) = BUF_NULL;
    ssize_t n = take_all(data, size, size, &whole);

    require(take_all(data, size, 3, &pieces) == n);
    if (n >= 0)
        require(whole.size == pieces.size && whole.size <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Problem problem = PROBLEM_NULL;
    unsigned status = 0;
    HttpHead head;
    ssize_t n = head_parse(&head, data, size, &status, &problem);

    if (n > 0) {
        HttpHead again;

        check_head(&head);
        require(head_parse(&again, data, (size_t)n, &status, &problem) == n);
        if (head.body == BODY_CHUNKED)
            check_body(data + n, size - (size_t)n);
    } else if (n < 0) {
        require(status >= 400 && status < 600 && *problem.text);
    } else {
        require(size < HEAD_MAX);
    }
    check_body(data, size);
    return 0;
}
