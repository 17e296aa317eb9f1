#include "proto/z85.h"

#include <string.h>

static const char digits[] =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

void z85_encode_key(char ret[static Z85_KEY_SIZE + 1], const uint8_t key[static 32])
{
    for (size_t i = 0; i < 8; i++) {
        const uint8_t *bytes = key + 4 * i;
        uint32_t value =
            (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];

        for (size_t j = 5; j-- > 0; value /= 85)
            ret[5 * i + j] = digits[value % 85];
    }
    ret[Z85_KEY_SIZE] = '\0';
}

bool z85_decode_key(uint8_t ret[static 32], const char *text)
{
    for (size_t i = 0; i < 8; i++) {
        uint64_t value = 0;

        for (size_t j = 0; j < 5; j++) {
            char c = text[5 * i + j];
            const char *digit = c ? strchr(digits, c) : NULL;

            if (!digit)
                return false;
            value = value * 85 + (uint64_t)(digit - digits);
        }
        if (value > UINT32_MAX)
            return false;
        for (size_t j = 4; j-- > 0; value >>= 8)
            ret[4 * i + j] = (uint8_t)value;
    }
    return true;
}
