/* Space: what files take on the disk. Room: how much a directory of ours may hold, and how much it does. */
#pragma once

#include "proto/base/base.h"

typedef struct Space {
    uint64_t bytes; /* allocated */
    uint64_t files; /* directories and links included */
} Space;

/* Adds what `name` of `dirfd` takes, with all below it when it is a directory. Follows no link and leaves no
 * filesystem; what cannot be looked at does not count. For a worker thread. */
void space_add(Space *space, int dirfd, const char *name);

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
