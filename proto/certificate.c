#include "proto/certificate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/fdio.h"

/* ---- keys as text ---- */

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

/* ---- certificates ---- */

#define FILE_MAX 4096

static bool find(char ret[static Z85_KEY_SIZE + 1], const char *text, const char *name)
{
    const char *at = strstr(text, name);
    uint8_t key[32];

    if (!at)
        return false;
    at += strlen(name);
    at += strspn(at, " \t=");
    if (*at != '"' || strnlen(at, Z85_KEY_SIZE + 2) < Z85_KEY_SIZE + 2 || at[Z85_KEY_SIZE + 1] != '"' ||
        !z85_decode_key(key, at + 1))
        return false;
    explicit_bzero(key, sizeof(key));
    memcpy(ret, at + 1, Z85_KEY_SIZE);
    ret[Z85_KEY_SIZE] = '\0';
    return true;
}

int certificate_read(Certificate *ret, int fd)
{
    char text[FILE_MAX + 1];
    ssize_t n = lseek(fd, 0, SEEK_SET) < 0 ? -errno : read_whole(fd, text, FILE_MAX);
    int r = n < 0 ? (int)n : 0;

    if (n == 0)
        return -ENODATA;
    if (r < 0)
        return r;
    text[n] = '\0';
    if (!find(ret->public_key, text, "public-key") || !find(ret->secret_key, text, "secret-key"))
        r = -EBADMSG;
    explicit_bzero(text, sizeof(text));
    return r;
}

int certificate_write(const Certificate *certificate, int fd)
{
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "# A pair of keys for Limpet over a network. Keep the secret key "
                     "secret.\nmetadata\ncurve\n    public-key = \"%s\"\n    secret-key = \"%s\"\n",
                     certificate->public_key, certificate->secret_key);
    int r = write_all(fd, text, (size_t)n);

    explicit_bzero(text, sizeof(text));
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r;
}
