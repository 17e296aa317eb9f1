#include "proto/wire.h"

#include <errno.h>
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

/* Looks at the character at p, of which n > 0 bytes are there. Returns its length when it is well formed.
 * Otherwise sets *bad and returns the length of the maximal subpart: the longest start of a well-formed
 * character, at least one byte (Unicode 3.9, best practice for U+FFFD; Python's "replace"). */
static size_t scan_character(const uint8_t *p, size_t n, bool *bad)
{
    uint8_t lead = p[0], low = 0x80, high = 0xbf;
    size_t length;

    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        low = lead == 0xe0 ? 0xa0 : low;
        high = lead == 0xed ? 0x9f : high;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        low = lead == 0xf0 ? 0x90 : low;
        high = lead == 0xf4 ? 0x8f : high;
    } else {
        *bad = true;
        return 1;
    }
    for (size_t i = 1; i < length; i++) {
        if (i >= n || p[i] < low || p[i] > high) {
            *bad = true;
            return i;
        }
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

/* Counts the bytes at the start that are ASCII, in whole blocks. */
static size_t ascii_prefix(const uint8_t *p, size_t n)
{
    uint64_t block[4];
    size_t i = 0;

    for (; n - i >= sizeof(block); i += sizeof(block)) {
        memcpy(block, p + i, sizeof(block));
        if ((block[0] | block[1] | block[2] | block[3]) & UINT64_C(0x8080808080808080))
            break;
    }
    return i;
}

/* Counts the bytes at the start that are well formed. */
static size_t valid_prefix(const uint8_t *p, size_t n)
{
    size_t i = 0;
    bool bad = false;

    while (i < n) {
        uint64_t eight;

        if (n - i >= sizeof(eight)) {
            memcpy(&eight, p + i, sizeof(eight));
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof(eight);
                i += ascii_prefix(p + i, n - i);
                continue;
            }
        }
        size_t step = scan_character(p + i, n - i, &bad);
        if (bad)
            break;
        i += step;
    }
    return i;
}

bool utf8_valid(const void *bytes, size_t size)
{
    return valid_prefix(bytes, size) == size;
}

int utf8_append_replaced(Buf *buf, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;

    while (size > 0) {
        size_t good = valid_prefix(p, size);
        bool bad = false;
        int r = buf_append(buf, p, good);

        if (r < 0)
            return r;
        p += good;
        size -= good;
        if (size == 0)
            break;
        size_t skip = scan_character(p, size, &bad);
        r = buf_append(buf, "\xef\xbf\xbd", 3);
        if (r < 0)
            return r;
        p += skip;
        size -= skip;
    }
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The unit at the end of a size as a power of two; -1 when it is none. */
static int unit_shift(const char *unit, size_t n)
{
    static const char letters[] = "kmgt";
    int shift = 0;

    if (n > 0)
        for (int i = 0; letters[i]; i++)
            if ((unit[0] | 0x20) == letters[i])
                shift = 10 * (i + 1);
    if (shift > 0) {
        unit++;
        n--;
        if (n == 2 && (unit[0] | 0x20) == 'i') {
            unit++;
            n--;
        }
    }
    if (n == 1 && (unit[0] | 0x20) == 'b')
        n = 0;
    return n == 0 ? shift : -1;
}

int size_parse(const char *text, size_t n, uint64_t *ret)
{
    uint64_t whole = 0, fraction = 0, scale = 1;
    size_t i = 0, begin;
    int shift;

    for (; i < n && is_digit(text[i]); i++)
        if (__builtin_mul_overflow(whole, UINT64_C(10), &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(text[i] - '0'), &whole))
            return -EINVAL;
    if (i == 0)
        return -EINVAL;
    if (i < n && text[i] == '.') {
        for (begin = ++i; i < n && is_digit(text[i]); i++) {
            if (scale < UINT64_C(1000000000000000000)) { /* digits after it are less than a byte of 1t */
                fraction = fraction * 10 + (uint64_t)(text[i] - '0');
                scale *= 10;
            }
        }
        if (i == begin)
            return -EINVAL;
    }
    shift = unit_shift(text + i, n - i);
    if (shift < 0 || (scale > 1 && shift == 0) || whole > UINT64_MAX >> shift)
        return -EINVAL;
    *ret = (whole << shift) + (uint64_t)(((unsigned __int128)fraction << shift) / scale);
    return 0;
}
