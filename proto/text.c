#include "proto/wire.h"

#include <string.h>

char *text_dup(Text text)
{
    char *copy = text.data ? malloc(text.size + 1) : NULL;

    if (copy) {
        memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
    }
    return copy;
}

bool text_equal(Text text, const char *other)
{
    size_t n = strlen(other);

    return text.data && text.size == n && memcmp(text.data, other, n) == 0;
}

static bool is_plain(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool name_valid(Text text)
{
    if (!text.data || text.size == 0 || text.size > LIMIT_SESSION_NAME || !is_plain(text.data[0]))
        return false;
    for (size_t i = 1; i < text.size; i++)
        if (!is_plain(text.data[i]) && text.data[i] != '.' && text.data[i] != '_' && text.data[i] != '-')
            return false;
    return true;
}
