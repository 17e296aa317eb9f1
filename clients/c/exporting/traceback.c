#include "clients/c/exporting/traceback.h"

#include <stdio.h>

#include "clients/c/exporting/items.h"

static Text next_line(Text *rest)
{
    const char *end = memchr(rest->data, '\n', rest->size);
    Text line = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
    size_t used = line.size + (end != NULL);

    *rest = (Text){rest->data + used, rest->size - used};
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}

void traceback_write(Writer *w, Text traceback, Text name, Text message)
{
    Items lines;

    items_begin(&lines);
    while (traceback.size > 0) {
        Text line = next_line(&traceback);

        write_text_n(items_add(&lines), line.data, line.size);
    }
    if (lines.n == 0) {
        _cleanup_(freep) char *line = NULL;

        if (asprintf(&line, "%.*s: %.*s", (int)name.size, name.data, (int)message.size,
                     message.size ? message.data : "") < 0)
            line = NULL;
        write_text(items_add(&lines), line ? line : "");
    }
    items_end(&lines, w);
}
