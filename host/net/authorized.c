#include "host/net/authorized.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "proto/base/fdio.h"

#define SPACES " \t\r"

void authorized_deinit(Authorized *authorized)
{
    free(authorized->keys);
    *authorized = (Authorized){0};
}

/* ---- a line ---- */

static bool read_number(uint64_t *ret, const char *text)
{
    size_t n = strlen(text);

    if (n == 0 || n > 18 || strspn(text, "0123456789") != n)
        return false;
    *ret = strtoull(text, NULL, 10);
    return true;
}

static bool read_owner(uid_t *ret, const char *text)
{
    struct passwd entry, *found = NULL;
    char space[16384];
    uint64_t number;

    if (read_number(&number, text)) {
        *ret = (uid_t)number;
        return number < UINT32_MAX;
    }
    getpwnam_r(text, &entry, space, sizeof(space), &found);
    if (found)
        *ret = found->pw_uid;
    return found;
}

static bool read_name(char ret[static 65], const char *text)
{
    size_t n = strlen(text);

    if (n == 0 || n > 64)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isgraph((unsigned char)text[i]) || text[i] == '"')
            return false;
    memcpy(ret, text, n + 1);
    return true;
}

/* A word after the key. */
static int read_word(AuthorizedKey *key, bool *has_owner, char *word, Problem *problem)
{
    char *value = strchr(word, '=');
    bool good;

    if (!value)
        return problem_set(problem, ERR_BAD_REQUEST, "'%.64s' is no name=value", word);
    *value++ = '\0';
    if (strcmp(word, "owner") == 0)
        good = *has_owner = read_owner(&key->owner, value);
    else if (strcmp(word, "name") == 0)
        good = read_name(key->name, value);
    else if (strcmp(word, "connections") == 0)
        good = read_number(&key->connections, value) && key->connections > 0;
    else if (strcmp(word, "sessions") == 0)
        good = read_number(&key->sessions, value);
    else if (strcmp(word, "memory") == 0)
        good = size_parse(value, strlen(value), &key->memory) == 0;
    else
        return problem_set(problem, ERR_BAD_REQUEST,
                           "there is no '%.64s'; there are owner, name, connections, sessions and memory",
                           word);
    return good ? 0 : problem_set(problem, ERR_BAD_REQUEST, "%s cannot be '%.64s'", word, value);
}

static int read_line(AuthorizedKey *key, char *line, Problem *problem)
{
    uint8_t bytes[32];
    char *rest, *word = strtok_r(line, SPACES, &rest);
    bool has_owner = false;
    int r = 0;

    *key = (AuthorizedKey){.connections = AUTHORIZED_CONNECTIONS};
    if (strlen(word) != Z85_KEY_SIZE || !z85_decode_key(bytes, word))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "it does not begin with a public key, the %u characters that `limpet keygen` prints",
            Z85_KEY_SIZE);
    memcpy(key->key, word, sizeof(key->key));
    while (r == 0 && (word = strtok_r(NULL, SPACES, &rest)))
        r = read_word(key, &has_owner, word, problem);
    if (r == 0 && !has_owner)
        return problem_set(problem, ERR_BAD_REQUEST, "owner=USER is missing: whose sessions the key has");
    return r;
}

/* ---- the file ---- */

static int check(const Authorized *authorized, const AuthorizedKey *key, Problem *problem)
{
    const AuthorizedKey *other = authorized_of(authorized, key->owner);

    if (authorized->n == AUTHORIZED_KEYS_MAX)
        return problem_set(problem, ERR_TOO_LARGE, "there are more than %u keys", AUTHORIZED_KEYS_MAX);
    if (authorized_find(authorized, key->key))
        return problem_set(problem, ERR_BAD_REQUEST, "the key is there already");
    if (other && (other->sessions != key->sessions || other->memory != key->memory))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "sessions and memory are limits of the owner: the lines of one owner say the same");
    return 0;
}

static int add(Authorized *authorized, const AuthorizedKey *key, Problem *problem)
{
    AuthorizedKey *keys;
    int r = check(authorized, key, problem);

    if (r < 0)
        return r;
    keys = reallocarray(authorized->keys, authorized->n + 1, sizeof(*keys));
    if (!keys)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    authorized->keys = keys;
    keys[authorized->n++] = *key;
    return 0;
}

/* A # within a word is a character of Z85. */
static void cut_comment(char *line)
{
    if (*line == '#')
        *line = '\0';
    for (char *c = line; (c = strchr(c, '#')); c++)
        if (c > line && strchr(SPACES, c[-1]))
            *c = '\0';
}

static int parse_line(Authorized *authorized, char *line, Problem *problem)
{
    AuthorizedKey key;
    int r;

    cut_comment(line);
    if (line[strspn(line, SPACES)] == '\0')
        return 0;
    r = read_line(&key, line, problem);
    return r < 0 ? r : add(authorized, &key, problem);
}

static int parse_lines(Authorized *authorized, char *text, Problem *problem)
{
    unsigned number = 0;
    int r = 0;

    for (char *line; r == 0 && (line = strsep(&text, "\n"));) {
        number++;
        r = parse_line(authorized, line, problem);
    }
    if (r < 0)
        problem_prefix(problem, "line %u", number);
    return r;
}

int authorized_parse(Authorized *ret, Text text, Problem *problem)
{
    char *copy _cleanup_(freep) = text.data ? text_dup(text) : strdup("");
    Authorized authorized = {0};
    int r;

    if (!copy)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (strlen(copy) != text.size)
        return problem_set(problem, ERR_BAD_REQUEST, "it is no text");
    r = parse_lines(&authorized, copy, problem);
    if (r < 0)
        authorized_deinit(&authorized);
    else
        *ret = authorized;
    return r;
}

/* ---- reading and writing ---- */

static int read_all(Buf *ret, int fd, Problem *problem)
{
    ssize_t n;

    if (lseek(fd, 0, SEEK_SET) < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot read it: %s", strerror(errno));
    ret->limit = AUTHORIZED_FILE_MAX;
    while ((n = buf_read_fd(ret, fd, 64u << 10)) > 0)
        ;
    if (n == -ENOBUFS)
        return problem_set(problem, ERR_TOO_LARGE, "it has more than %u bytes", AUTHORIZED_FILE_MAX);
    return n < 0 ? problem_set(problem, ERR_BAD_REQUEST, "cannot read it: %s", strerror((int)-n)) : 0;
}

int authorized_read(Authorized *ret, int fd, Problem *problem)
{
    Buf bytes _cleanup_(buf_deinit) = BUF_NULL;
    int r = read_all(&bytes, fd, problem);

    return r < 0 ? r : authorized_parse(ret, (Text){(const char *)buf_head(&bytes), bytes.size}, problem);
}

static int write_line(int fd, const AuthorizedKey *key)
{
    char line[320];
    int n =
        snprintf(line, sizeof(line), "%s owner=%u connections=%llu sessions=%llu memory=%llu%s%s\n", key->key,
                 key->owner, (unsigned long long)key->connections, (unsigned long long)key->sessions,
                 (unsigned long long)key->memory, *key->name ? " name=" : "", key->name);

    return write_all(fd, line, (size_t)n);
}

static int write_down(const Authorized *authorized, Problem *problem)
{
    int fd _cleanup_(closep) = memfd_create("authorized keys", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : 0;

    for (size_t i = 0; r == 0 && i < authorized->n; i++)
        r = write_line(fd, &authorized->keys[i]);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        r = -errno;
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "cannot hand it on: %s", strerror(-r)) : take_fd(&fd);
}

/* Whoever writes to it says who has whose sessions. */
static int check_file(int fd, Problem *problem)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return problem_set(problem, ERR_BAD_REQUEST, "it is no file");
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 022)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "others may write to it: chown it to the user of limpetd, and chmod go-w");
    return 0;
}

int authorized_load(const char *path, Problem *problem)
{
    int fd _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    Authorized authorized _cleanup_(authorized_deinit) = {0};
    int r = fd < 0 ? problem_set(problem, ERR_BAD_REQUEST, "%s", strerror(errno)) : check_file(fd, problem);

    if (r == 0)
        r = authorized_read(&authorized, fd, problem);
    if (r == 0)
        r = write_down(&authorized, problem);
    if (r < 0)
        problem_prefix(problem, "%s (option authorized_keys)", path);
    return r;
}

/* ---- looking ---- */

const AuthorizedKey *authorized_find(const Authorized *authorized, const char *key)
{
    for (size_t i = 0; i < authorized->n; i++)
        if (strcmp(authorized->keys[i].key, key) == 0)
            return &authorized->keys[i];
    return NULL;
}

const AuthorizedKey *authorized_of(const Authorized *authorized, uid_t owner)
{
    for (size_t i = 0; i < authorized->n; i++)
        if (authorized->keys[i].owner == owner)
            return &authorized->keys[i];
    return NULL;
}
