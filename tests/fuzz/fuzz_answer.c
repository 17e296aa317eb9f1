/* The answer of a server, line by line: what a sandbox is told of it is whole, and no line in it is two. */
#include <stdlib.h>
#include <string.h>

#include "host/egress/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;
    HttpAnswer answer _cleanup_(answer_deinit) = {0};
    const char *text = (const char *)data, *end = text + size;

    answer_init(&answer, size & 1, size & 2, true);
    if (answer_set_origin(&answer, "https://a.example:443/", "/v1", "a") < 0)
        return 0;
    while (text < end && !answer.begun) {
        const char *line = memchr(text, '\n', (size_t)(end - text));
        size_t n = line ? (size_t)(line - text) + 1 : (size_t)(end - text);

        if (answer_line(&answer, (Text){text, n}, &out) < 0)
            return 0;
        text += n;
    }
    if (answer.begun && fields_end(buf_head(&out), out.size) != (ssize_t)out.size)
        abort();
    return 0;
}
