/* Room: how much a directory of ours may hold, and how much it does. */
#pragma once

#include "host/files/space.h"

typedef struct Room {
    Space limit;
    Space used;
    bool measured; /* `used` is known */
} Room;

/* As much as a disk of that size, and what filesystems round up differently. */
Room room_of_disk(uint64_t bytes, uint64_t files);

/* Returns whether there is room for `more` where `less` goes. Measures the directory when its contents are
 * not known yet, and once more when it seems full: others may have removed something. May block. */
bool room_has(Room *room, int directory, Space more, Space less);

/* Counts `more` as come and `less` as gone. */
void room_take(Room *room, Space more, Space less);
