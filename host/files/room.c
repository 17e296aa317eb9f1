#include "host/files/room.h"

#include <string.h>

#include "host/files/beneath.h"

/* ---- space ---- */

/* Directories within each other: each needs a descriptor meanwhile. */
#define DEPTH_MAX 128u

static void add_entry(Space *space, int parent, const char *name, unsigned depth);

static void add_contents(Space *space, int parent, const char *name, unsigned depth)
{
    DIR *stream;

    if (depth > DEPTH_MAX || beneath_open_list(parent, name, &stream) < 0)
        return;
    for (struct dirent *entry; (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            add_entry(space, dirfd(stream), entry->d_name, depth);
    closedir(stream);
}

static void add_entry(Space *space, int parent, const char *name, unsigned depth)
{
    struct stat st;
    _cleanup_(closep) int handle = beneath_find(parent, name, &st);

    if (handle < 0)
        return;
    space->bytes += (uint64_t)st.st_blocks * 512;
    space->files++;
    if (S_ISDIR(st.st_mode))
        add_contents(space, parent, name, depth + 1);
}

void space_add(Space *space, int parent, const char *name)
{
    add_entry(space, parent, name, 0);
}

/* ---- room ---- */

#define ROUNDED_UP_SHARE 8

Room room_of_disk(uint64_t bytes, uint64_t files)
{
    return (Room){.limit = {bytes + bytes / ROUNDED_UP_SHARE, files + files / ROUNDED_UP_SHARE}};
}

static bool fits(const Room *room, Space more, Space less)
{
    return room->used.bytes + more.bytes <= room->limit.bytes + less.bytes &&
           room->used.files + more.files <= room->limit.files + less.files;
}

static void measure(Room *room, int directory)
{
    room->used = (Space){0};
    room->measured = true;
    space_add(&room->used, directory, ".");
}

bool room_has(Room *room, int directory, Space more, Space less)
{
    bool looked = !room->measured;

    if (looked)
        measure(room, directory);
    if (fits(room, more, less) || looked)
        return fits(room, more, less);
    measure(room, directory);
    return fits(room, more, less);
}

void room_take(Room *room, Space more, Space less)
{
    room->used.bytes = room->used.bytes + more.bytes - MIN(less.bytes, room->used.bytes + more.bytes);
    room->used.files = room->used.files + more.files - MIN(less.files, room->used.files + more.files);
}
