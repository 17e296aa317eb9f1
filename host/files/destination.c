#include "host/files/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"

#define DIRECTORY_MODE 0755

static int append(Destination *destination, const char *name)
{
    size_t room = sizeof(destination->path) - destination->length;
    int n = snprintf(destination->path + destination->length, room, "/%s", name);

    if ((size_t)n >= room)
        return -ENAMETOOLONG;
    destination->length += (size_t)n;
    return 0;
}

/* The first `n` bytes of `path` as one name of ours. */
static int escape_component(char ret[NAME_ESCAPED_SIZE], const char *path, size_t n)
{
    char name[NAME_MAX + 1];

    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, path, n);
    name[n] = '\0';
    return name_escape(ret, name);
}

static int enter(Destination *destination, const char *component, size_t n)
{
    char name[NAME_ESCAPED_SIZE + sizeof(OTHER_KIND)];
    struct stat st;
    int r = escape_component(name, component, n);

    if (r < 0)
        return r;
    destination->made += fstatat(destination->directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
    int next = beneath_mkdirs(destination->directory, name, DIRECTORY_MODE, (uid_t)-1, (gid_t)-1);
    if (next == -ENOTDIR) {
        strcat(name, OTHER_KIND);
        next = beneath_mkdirs(destination->directory, name, DIRECTORY_MODE, (uid_t)-1, (gid_t)-1);
    }
    if (next < 0)
        return next;
    close_fd(&destination->directory);
    destination->directory = next;
    return append(destination, name);
}

static int choose_name(Destination *destination, const char *component)
{
    struct stat st;
    int r = escape_component(destination->name, component, strlen(component));

    if (r < 0)
        return r;
    if (fstatat(destination->directory, destination->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode))
        strcat(destination->name, OTHER_KIND);
    return append(destination, destination->name);
}

int destination_init(Destination *destination, int target, const char *target_path, const char *path)
{
    int r = 0;

    destination->made = 0;
    destination->length = strlen(target_path);
    destination->directory = beneath_open(target, ".", O_PATH | O_DIRECTORY, 0);
    if (destination->directory < 0)
        return destination->directory;
    if (destination->length >= sizeof(destination->path))
        return -ENAMETOOLONG;
    memcpy(destination->path, target_path, destination->length + 1);
    for (const char *slash; r == 0 && (slash = strchr(path, '/')); path = slash + 1)
        r = enter(destination, path, (size_t)(slash - path));
    return r < 0 ? r : choose_name(destination, path);
}

bool destination_find(int target, const char *path, struct stat *ret_stat)
{
    char names[PATH_MAX], name[NAME_ESCAPED_SIZE];
    size_t used = 0;

    for (;;) {
        size_t n = strcspn(path, "/");

        if (escape_component(name, path, n) < 0 || used + strlen(name) + 2 > sizeof(names))
            return false;
        used += (size_t)sprintf(names + used, "%s%s", used > 0 ? "/" : "", name);
        if (!path[n])
            break;
        path += n + 1;
    }
    _cleanup_(closep) int handle = beneath_find(target, names, ret_stat);
    return handle >= 0 && S_ISREG(ret_stat->st_mode);
}

void destination_deinit(Destination *destination)
{
    close_fd(&destination->directory);
}
