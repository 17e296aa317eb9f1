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
    Leftover leftover = {kind, strdup(id), space.bytes, clock_seconds(st.st_mtim)};
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
    uint64_t bytes = 0;
    size_t n = 0;

    if (leftovers->n > 0)
        qsort(leftovers->entries, leftovers->n, sizeof(*leftovers->entries), by_end);
    for (size_t i = 0; i < leftovers->n; i++)
        bytes += leftovers->entries[i].bytes;
    for (; n < leftovers->n; n++) {
        const Leftover *oldest = &leftovers->entries[n];
        bool too_old = retention->keep_for > 0 && now - oldest->ended > retention->keep_for;

        if (!too_old && (retention->keep_size == 0 || bytes <= retention->keep_size))
            break;
        bytes -= oldest->bytes;
    }
    return n;
}
