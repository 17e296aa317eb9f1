#include "host/files/space.h"

#include <string.h>

#include "host/files/beneath.h"

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
