#include "host/install/requirements.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* ---- what is asked for ---- */

#define LINE_MAX_BYTES 500u

static Text trim(Text line)
{
    while (line.size > 0 && isspace((unsigned char)line.data[0])) {
        line.data++;
        line.size--;
    }
    while (line.size > 0 && isspace((unsigned char)line.data[line.size - 1]))
        line.size--;
    return line;
}

/* A comment begins a line, or follows a blank. */
static Text without_comment(Text line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] == '#' && (i == 0 || isspace((unsigned char)line.data[i - 1])))
            line.size = i;
    return trim(line);
}

/* The line that `text` begins with, which it is moved behind. */
static Text next_line(Text *text)
{
    const char *end = memchr(text->data, '\n', text->size);
    Text line = {text->data, end ? (size_t)(end - text->data) : text->size};
    size_t taken = line.size + (end != NULL);

    text->data += taken;
    text->size -= taken;
    return without_comment(line);
}

static bool is_requirement(Text line)
{
    for (size_t i = 0; i < line.size; i++)
        if ((unsigned char)line.data[i] < ' ' || (unsigned char)line.data[i] == 0x7f)
            return false;
    return line.size <= LINE_MAX_BYTES && isalnum((unsigned char)line.data[0]) &&
           line.data[line.size - 1] != '\\';
}

static int refuse(Text line, Problem *problem)
{
    return problem_set(
        problem, ERR_BAD_REQUEST,
        "'%.*s' is no requirement; one is a line such as polars or polars==1.*, without options of pip",
        (int)MIN(line.size, 100), line.data);
}

int requirements_read(Buf *ret, Text text, Problem *problem)
{
    size_t before = ret->size;

    while (text.data && text.size > 0) {
        Text line = next_line(&text);

        if (line.size == 0)
            continue;
        if (!is_requirement(line))
            return refuse(line, problem);
        if (buf_append(ret, line.data, line.size) < 0 || buf_append(ret, "\n", 1) < 0)
            return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    if (ret->size == before)
        return problem_set(problem, ERR_BAD_REQUEST, "packages: there is no requirement");
    return 0;
}

/* ---- names ---- */

static bool is_dash(char c)
{
    return c == '-' || c == '_' || c == '.';
}

static size_t name_size(const char *text, size_t size)
{
    size_t n = 0;

    while (n < size && (isalnum((unsigned char)text[n]) || is_dash(text[n])))
        n++;
    return n;
}

/* As indexes compare them. */
static bool is_same_name(Text one, Text other)
{
    if (one.size != other.size)
        return false;
    for (size_t i = 0; i < one.size; i++)
        if (tolower((unsigned char)one.data[i]) != tolower((unsigned char)other.data[i]) &&
            !(is_dash(one.data[i]) && is_dash(other.data[i])))
            return false;
    return true;
}

static bool has_name(const char *names, Text name)
{
    while (*names) {
        names += strspn(names, ", ");
        Text listed = {names, strcspn(names, ", ")};

        if (listed.size > 0 && is_same_name(listed, name))
            return true;
        names += listed.size;
    }
    return false;
}

/* A requirement that is fetched from an address is of whatever package is there. */
bool requirements_are_of(const Buf *requirements, const char *names)
{
    Text text = {(const char *)buf_head(requirements), requirements->size};

    while (text.data && text.size > 0) {
        Text line = next_line(&text);
        Text name = {line.data, name_size(line.data, line.size)};

        if (memchr(line.data, '@', line.size) || !has_name(names, name))
            return false;
    }
    return true;
}

/* ---- locks ---- */

typedef struct LockLine {
    Text name, version;
} LockLine;

/* `NAME==VERSION`, and whatever behind a blank. */
static bool read_lock_line(Text line, LockLine *ret)
{
    size_t name = 0, version;

    while (name < line.size && (isalnum((unsigned char)line.data[name]) || strchr("-_.", line.data[name])))
        name++;
    if (name == 0 || line.size < name + 3 || memcmp(line.data + name, "==", 2) != 0)
        return false;
    version = name + 2;
    while (version < line.size && line.data[version] != ' ')
        version++;
    *ret = (LockLine){{line.data, name}, {line.data + name + 2, version - name - 2}};
    return ret->name.size <= LIMIT_NOTE && ret->version.size > 0 && ret->version.size <= LIMIT_NOTE;
}

/* False at the end. */
static bool next_package(Text *lock, LockLine *ret)
{
    while (lock->size > 0) {
        const char *end = memchr(lock->data, '\n', lock->size);
        Text line = {lock->data, end ? (size_t)(end - lock->data) : lock->size};
        size_t taken = line.size + (end != NULL);

        lock->data += taken;
        lock->size -= taken;
        if (read_lock_line(line, ret))
            return true;
    }
    return false;
}

static size_t count_packages(Text lock)
{
    LockLine line;
    size_t n = 0;

    while (n < LIMIT_PACKAGES && next_package(&lock, &line))
        n++;
    return n;
}

static void write_packages(Writer *w, const void *source)
{
    Text lock = *(const Text *)source;
    size_t n = count_packages(lock);
    LockLine line;

    write_array(w, n);
    for (size_t i = 0; i < n && next_package(&lock, &line); i++)
        body_write(w, MsgPackage, &((MsgPackage){.name = line.name, .version = line.version}));
}

Value lock_packages(const Text *lock)
{
    return (Value){.write = write_packages, .source = lock};
}

bool lock_is_sound(Text lock)
{
    for (size_t i = 0; i < lock.size; i++)
        if ((lock.data[i] < ' ' && lock.data[i] != '\n') || lock.data[i] > '~')
            return false;
    return lock.size <= LIMIT_LOCK;
}
