#include "host/install/lock.h"

#include <ctype.h>
#include <string.h>

typedef struct LockLine {
    Text name, version;
} LockLine;

/* `NAME==VERSION`, and whatever behind a blank. */
static bool read_line(Text line, LockLine *ret)
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
        if (read_line(line, ret))
            return true;
    }
    return false;
}

static size_t count(Text lock)
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
    size_t n = count(lock);
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
