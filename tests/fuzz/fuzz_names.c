/* An escaped name is plain, and says what the name was, unless it was cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/files/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_plain(const char *escaped)
{
    if (!*escaped || *escaped == '.' || *escaped == '-' || strlen(escaped) > NAME_ESCAPED_MAX)
        abort();
    for (const char *c = escaped; *c; c++)
        if (*c <= ' ' || *c >= 0x7f || *c == '/')
            abort();
    if (strstr(escaped, "%~"))
        abort();
}

static void check_name(const char *name)
{
    char escaped[NAME_ESCAPED_SIZE];
    const char *c = escaped;

    if (name_escape(escaped, name) < 0)
        return;
    check_plain(escaped);
    if (strstr(escaped, "%-"))
        return;
    for (; *name; name++, c += *c == '%' ? 3 : 1) {
        unsigned int byte = (unsigned char)*c;

        if (*c == '%' && sscanf(c + 1, "%2X", &byte) != 1)
            abort();
        if (byte != (unsigned char)*name)
            abort();
    }
    if (*c)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[256], display[64];

    if (size == 0 || size >= sizeof(text) || memchr(data, '\0', size) || memchr(data, '/', size))
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    check_name(text);
    if (strlen(path_display(display, sizeof(display), text)) >= sizeof(display))
        abort();
    return 0;
}
