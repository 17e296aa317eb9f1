#include "host/egress/fields.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

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

void fields_begin(FieldLines *lines, const uint8_t *bytes, size_t size)
{
    *lines = (FieldLines){(const char *)bytes, (const char *)bytes + size};
}

bool fields_next_line(FieldLines *lines, Text *ret)
{
    const char *end = memchr(lines->next, '\n', (size_t)(lines->end - lines->next));

    if (!end || end - lines->next < 2) /* the empty one */
        return false;
    *ret = (Text){lines->next, (size_t)(end - lines->next) - 1};
    lines->next = end + 1;
    return true;
}

bool fields_is_token(Text text)
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

bool fields_split(Text line, Text *ret_name, Text *ret_value)
{
    const char *colon = memchr(line.data, ':', line.size);

    if (!colon)
        return false;
    *ret_name = (Text){line.data, (size_t)(colon - line.data)};
    *ret_value = trim((Text){colon + 1, line.size - ret_name->size - 1});
    return fields_is_token(*ret_name);
}

bool fields_list_has(Text list, Text word)
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

bool fields_are_of_connection(Text name)
{
    static const char *const names[] = {"connection", "content-length", "expect",
                                        "host",       "keep-alive",     "te",
                                        "trailer",    "upgrade",        "transfer-encoding"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (name.size == strlen(names[i]) && strncasecmp(name.data, names[i], name.size) == 0)
            return true;
    return name.size >= 6 && strncasecmp(name.data, "proxy-", 6) == 0;
}
