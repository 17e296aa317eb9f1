#include "host/files/leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "host/files/beneath.h"
#include "host/files/room.h"
#include "host/files/sessiondir.h"
#include "proto/base/clock.h"

static const char *const places[] = {[LEFTOVER_ARTIFACTS] = "sessions", [LEFTOVER_OUTPUT] = "outputs"};
/* Part of each that is counted and removed. */
static const char *const contents[] = {[LEFTOVER_ARTIFACTS] = "artifacts", [LEFTOVER_OUTPUT] = "."};

static int append(Leftovers *leftovers, const Leftover *leftover)
{
    if (leftovers->n == leftovers->capacity) {
        size_t capacity = leftovers->capacity ? 2 * leftovers->capacity : 64;
        Leftover *more = realloc(leftovers->entries, capacity * sizeof(*more));

        if (!more)
            return -ENOMEM;
        leftovers->entries = more;
        leftovers->capacity = capacity;
    }
    leftovers->entries[leftovers->n++] = *leftover;
    return 0;
}

/* A directory without anything published is none. */
static int look_at(Leftovers *leftovers, LeftoverKind kind, int place, const char *id)
{
    struct stat st;
    _cleanup_(closep) int handle = beneath_open(place, id, O_PATH | O_DIRECTORY, 0);
    Space space = {0};

    if (handle < 0 || fstat(handle, &st) < 0)
        return 0;
    space_add(&space, handle, contents[kind]);
    if (space.files == 0)
        return 0;
    Leftover leftover = {
        .kind = kind, .id = strdup(id), .bytes = space.bytes, .ended = clock_seconds(st.st_mtim)};
    int r = leftover.id ? append(leftovers, &leftover) : -ENOMEM;
    if (r < 0)
        free(leftover.id);
    return r;
}

static int find_kind(Leftovers *leftovers, int state, LeftoverKind kind)
{
    DIR *stream;
    int r = beneath_open_list(state, places[kind], &stream);

    if (r < 0)
        return 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(stream));)
        if (entry->d_name[0] != '.')
            r = look_at(leftovers, kind, dirfd(stream), entry->d_name);
    closedir(stream);
    return r;
}

int leftovers_find(Leftovers *ret, const char *state_dir)
{
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    Leftovers leftovers = {0};
    int r = state < 0 ? -errno : find_kind(&leftovers, state, LEFTOVER_ARTIFACTS);

    if (r == 0)
        r = find_kind(&leftovers, state, LEFTOVER_OUTPUT);
    if (r < 0)
        leftovers_deinit(&leftovers);
    else
        *ret = leftovers;
    return r;
}

/* As the sandbox calls it. */
#define SAVED_PLACE ".limpet-saved-idle"
#define MEMORY_NAME "memory"

/* Hostile code may give a file any time of its last change, but that of its inode. */
static bool find_memory(int files, struct stat *ret)
{
    _cleanup_(closep) int handle = files < 0 ? -1 : beneath_find(files, SAVED_PLACE "/" MEMORY_NAME, ret);

    return handle >= 0 && S_ISREG(ret->st_mode);
}

/* Its files may be on a disk of their own, of which all is counted anyway. */
static void measure_memory(Leftover *saved, int place)
{
    _cleanup_(closep) int session = beneath_open(place, saved->id, O_PATH | O_DIRECTORY, 0);
    _cleanup_(closep) int files =
        session < 0 ? -1 : openat(session, "files", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (!find_memory(files, &st))
        return;
    saved->memory.bytes = MIN((uint64_t)st.st_blocks * 512, saved->bytes);
    saved->memory.changed = clock_seconds(st.st_ctim);
}

bool leftover_forget_memory(int files, double changed)
{
    _cleanup_(closep) int place = beneath_open(files, SAVED_PLACE, O_PATH | O_DIRECTORY, 0);
    struct stat st;

    return !find_memory(files, &st) ||
           (clock_seconds(st.st_ctim) == changed && place >= 0 && unlinkat(place, MEMORY_NAME, 0) == 0);
}

int leftovers_add_saved(Leftovers *leftovers, const char *state_dir, Text id, double since)
{
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int place =
        state < 0 ? -1 : beneath_open(state, places[LEFTOVER_ARTIFACTS], O_PATH | O_DIRECTORY, 0);
    Leftover saved = {.kind = LEFTOVER_SAVED, .id = text_dup(id), .ended = since};
    Space space = {0};
    int r = -ENOMEM;

    if (saved.id) {
        space_add(&space, place, saved.id);
        saved.bytes = space.bytes;
        measure_memory(&saved, place);
        r = append(leftovers, &saved);
    }
    if (r < 0)
        free(saved.id);
    return r;
}

void leftovers_deinit(Leftovers *leftovers)
{
    for (size_t i = 0; i < leftovers->n; i++)
        free(leftovers->entries[i].id);
    free(leftovers->entries);
    *leftovers = (Leftovers){0};
}

bool leftover_remove(const Leftover *leftover, const char *state_dir, Worker *worker)
{
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int place =
        state < 0 ? -1 : beneath_open(state, places[leftover->kind], O_PATH | O_DIRECTORY, 0);
    struct stat st;

    if (place < 0 || fstatat(place, leftover->id, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
        clock_seconds(st.st_mtim) != leftover->ended)
        return false;
    if (leftover->kind == LEFTOVER_OUTPUT)
        return sessiondir_set_aside(state_dir, state, place, leftover->id, worker);
    _cleanup_(closep) int session = beneath_open(place, leftover->id, O_PATH | O_DIRECTORY, 0);
    if (session < 0 || !sessiondir_set_aside(state_dir, state, session, "artifacts", worker))
        return false;
    unlinkat(place, leftover->id, AT_REMOVEDIR);
    return true;
}

/* ---- which of them go ---- */

static int by_end(const void *a, const void *b)
{
    double first = ((const Leftover *)a)->ended, second = ((const Leftover *)b)->ended;

    return (first > second) - (first < second);
}

size_t retention_choose(Leftovers *leftovers, const Retention *retention, double now)
{
    uint64_t limit = retention->keep_size ? retention->keep_size : UINT64_MAX, bytes = 0;
    Leftover *entries = leftovers->entries;
    size_t n = 0;

    if (leftovers->n > 0)
        qsort(entries, leftovers->n, sizeof(*entries), by_end);
    while (n < leftovers->n && retention->keep_for > 0 && now - entries[n].ended > retention->keep_for)
        n++;
    for (size_t i = n; i < leftovers->n; i++)
        bytes += entries[i].bytes;
    for (size_t i = n; i < leftovers->n && bytes > limit; i++) {
        entries[i].memory.goes = entries[i].memory.bytes > 0;
        entries[i].bytes -= entries[i].memory.bytes;
        bytes -= entries[i].memory.bytes;
    }
    while (n < leftovers->n && bytes > limit)
        bytes -= entries[n++].bytes;
    return n;
}
