#include "host/files/room.h"

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
