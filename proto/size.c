#include <errno.h>

#include "proto/wire.h"

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
