#include "host/files/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
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

/* ---- destinations ---- */

#define DIRECTORY_MODE 0755

static int append(Destination *destination, const char *name)
{
    size_t room = sizeof(destination->path) - destination->length;
    int n = snprintf(destination->path + destination->length, room, "/%s", name);

    if ((size_t)n >= room)
        return -ENAMETOOLONG;
    destination->length += (size_t)n;
    return 0;
}

/* The first `n` bytes of `path` as one name of ours. */
static int escape_component(char ret[NAME_ESCAPED_SIZE], const char *path, size_t n)
{
    char name[NAME_MAX + 1];

    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, path, n);
    name[n] = '\0';
    return name_escape(ret, name);
}

static int enter(Destination *destination, const char *component, size_t n)
{
    char name[NAME_ESCAPED_SIZE + sizeof(OTHER_KIND)];
    struct stat st;
    int r = escape_component(name, component, n);

    if (r < 0)
        return r;
    destination->made += fstatat(destination->directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
    int next = beneath_mkdirs(destination->directory, name, DIRECTORY_MODE, (uid_t)-1, (gid_t)-1);
    if (next == -ENOTDIR) {
        strcat(name, OTHER_KIND);
        next = beneath_mkdirs(destination->directory, name, DIRECTORY_MODE, (uid_t)-1, (gid_t)-1);
    }
    if (next < 0)
        return next;
    close_fd(&destination->directory);
    destination->directory = next;
    return append(destination, name);
}

static int choose_name(Destination *destination, const char *component)
{
    struct stat st;
    int r = escape_component(destination->name, component, strlen(component));

    if (r < 0)
        return r;
    if (fstatat(destination->directory, destination->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode))
        strcat(destination->name, OTHER_KIND);
    return append(destination, destination->name);
}

int destination_init(Destination *destination, int target, const char *target_path, const char *path)
{
    int r = 0;

    destination->made = 0;
    destination->length = strlen(target_path);
    destination->directory = beneath_open(target, ".", O_PATH | O_DIRECTORY, 0);
    if (destination->directory < 0)
        return destination->directory;
    if (destination->length >= sizeof(destination->path))
        return -ENAMETOOLONG;
    memcpy(destination->path, target_path, destination->length + 1);
    for (const char *slash; r == 0 && (slash = strchr(path, '/')); path = slash + 1)
        r = enter(destination, path, (size_t)(slash - path));
    return r < 0 ? r : choose_name(destination, path);
}

bool destination_find(int target, const char *path, struct stat *ret_stat)
{
    char names[PATH_MAX], name[NAME_ESCAPED_SIZE];
    size_t used = 0;

    for (;;) {
        size_t n = strcspn(path, "/");

        if (escape_component(name, path, n) < 0 || used + strlen(name) + 2 > sizeof(names))
            return false;
        used += (size_t)sprintf(names + used, "%s%s", used > 0 ? "/" : "", name);
        if (!path[n])
            break;
        path += n + 1;
    }
    _cleanup_(closep) int handle = beneath_find(target, names, ret_stat);
    return handle >= 0 && S_ISREG(ret_stat->st_mode);
}

void destination_deinit(Destination *destination)
{
    close_fd(&destination->directory);
}
