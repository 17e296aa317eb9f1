#include "host/files/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/files/sha256.h"

#define HASH_BYTES    16u /* of SHA-256, in a name that was cut */
#define EXTENSION_MAX 12u

static bool is_alphanumeric(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_plain(unsigned char c, bool first)
{
    if (c == '.' || c == '-')
        return !first;
    return is_alphanumeric(c) || (c != '\0' && strchr("_+=,@", c));
}

/* Escapes as much of `name` as fits into `room` characters. Returns how much of `ret` was written and sets
 * *ret_whole to whether that was all. */
static size_t escape_into(char *ret, size_t room, const char *name, bool *ret_whole)
{
    size_t used = 0;
    size_t i;

    for (i = 0; name[i]; i++) {
        unsigned char c = (unsigned char)name[i];
        size_t n = is_plain(c, i == 0) ? 1 : 3;

        if (used + n > room)
            break;
        if (n == 1)
            ret[used] = (char)c;
        else
            snprintf(ret + used, 4, "%%%02X", c);
        used += n;
    }
    ret[used] = '\0';
    *ret_whole = name[i] == '\0';
    return used;
}

/* ".csv" in "data.csv": a short ending of letters and digits, or "". */
static const char *plain_extension(const char *name)
{
    const char *dot = strrchr(name, '.');

    if (!dot || strlen(dot) > EXTENSION_MAX)
        return "";
    for (const char *c = dot + 1; *c; c++)
        if (!is_alphanumeric((unsigned char)*c))
            return "";
    return dot;
}

static int hash_name(char ret[2 * HASH_BYTES + 1], const char *name)
{
    _cleanup_(sha256_deinit) Sha256 sha = SHA256_NULL;
    uint8_t digest[SHA256_SIZE];

    if (sha256_start(&sha) < 0 || sha256_update(&sha, name, strlen(name)) < 0 ||
        sha256_finish(&sha, digest) < 0)
        return -ENOMEM;
    hex_encode(ret, digest, HASH_BYTES);
    return 0;
}

int name_escape(char ret[NAME_ESCAPED_SIZE], const char *name)
{
    char hash[2 * HASH_BYTES + 1];
    bool whole;

    escape_into(ret, NAME_ESCAPED_MAX, name, &whole);
    if (whole)
        return 0;
    if (hash_name(hash, name) < 0)
        return -ENOMEM;

    const char *extension = plain_extension(name);
    size_t room = NAME_ESCAPED_MAX - strlen("%-") - strlen(hash) - strlen(extension);
    size_t used = escape_into(ret, room, name, &whole);
    snprintf(ret + used, NAME_ESCAPED_SIZE - used, "%%-%s%s", hash, extension);
    return 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int name_unescape(char *ret, size_t size, const char *escaped)
{
    size_t used = 0;

    if (!*escaped || strlen(escaped) > NAME_ESCAPED_MAX)
        return -EINVAL;
    for (const char *c = escaped; *c; c++) {
        int byte = (unsigned char)*c;

        if (*c == '%') {
            int high = hex_digit(c[1]);
            int low = high < 0 ? -1 : hex_digit(c[2]);
            byte = high * 16 + low;
            if (low < 0 || byte == 0 || byte == '/' || is_plain((unsigned char)byte, used == 0))
                return -EINVAL;
            c += 2;
        } else if (!is_plain((unsigned char)byte, used == 0)) {
            return -EINVAL;
        }
        if (used + 1 >= size)
            return -ENOBUFS;
        ret[used++] = (char)byte;
    }
    ret[used] = '\0';
    return 0;
}

const char *path_display(char *ret, size_t size, const char *path)
{
    size_t used = 0;

    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        bool printable = c > ' ' && c < 0x7f && c != '%';

        if (used + (printable ? 1 : 3) + strlen("...") >= size) {
            used += (size_t)snprintf(ret + used, size - used, "...");
            break;
        }
        used += (size_t)snprintf(ret + used, size - used, printable ? "%c" : "%%%02X", c);
    }
    ret[used] = '\0';
    return ret;
}
