/* A name survives escaping and unescaping; what comes out is plain; what is not made by escaping is refused.
 */
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
    char escaped[NAME_ESCAPED_SIZE], back[256];

    if (name_escape(escaped, name) < 0)
        return;
    check_plain(escaped);
    int r = name_unescape(back, sizeof(back), escaped);
    if (r == 0 ? strcmp(back, name) != 0 : !strstr(escaped, "%-"))
        abort();
}

/* Taken as an escaped name: it is refused, or it is just what escaping makes. */
static void check_escaped(const char *text)
{
    char name[256], escaped[NAME_ESCAPED_SIZE];

    if (name_unescape(name, sizeof(name), text) < 0)
        return;
    if (name_escape(escaped, name) < 0 || strcmp(escaped, text) != 0)
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
    check_escaped(text);
    if (strlen(path_display(display, sizeof(display), text)) >= sizeof(display))
        abort();
    return 0;
}
