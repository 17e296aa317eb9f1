#include "host/engine/image.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* [A-Za-z0-9._:-]+, and nothing that leads out of the directory of images. */
static bool name_is_valid(const char *name)
{
    if (*name == '\0' || *name == '.')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._:-", *name))
            return false;
    return true;
}

void image_resolve(const EngineConfig *config, const char *name, char *ret, size_t size)
{
    char path[PATH_MAX], target[PATH_MAX];
    ssize_t n;

    if (!*name)
        name = config->image;
    snprintf(ret, size, "%s", name);
    if (*name && !name_is_valid(name))
        return;
    snprintf(path, sizeof(path), "%s/%s", config->images, *name ? name : "default");
    n = readlink(path, target, sizeof(target) - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    name = strrchr(target, '/');
    name = name ? name + 1 : target;
    if (name_is_valid(name) && strlen(name) < size)
        strcpy(ret, name);
}

int image_find(const EngineConfig *config, const char *name, char **ret_rootfs, Problem *problem)
{
    char *path _cleanup_(freep) = NULL;
    char *rootfs _cleanup_(freep) = NULL;
    char fallback[256];
    struct stat st;

    if (*name == '\0') {
        image_resolve(config, name, fallback, sizeof(fallback));
        name = fallback;
    }
    if (*name == '\0')
        return problem_set(problem, ERR_IMAGE_MISSING,
                           "there is no sandbox image; build one with: limpet image build");
    if (!name_is_valid(name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "'%s' is not a valid image name; use letters, digits and . _ : -", name);
    if (asprintf(&path, "%s/%s/rootfs", config->images, name) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    rootfs = realpath(path, NULL); /* an alias is a link, and runc takes none */
    if (!rootfs || stat(rootfs, &st) < 0 || !S_ISDIR(st.st_mode))
        return problem_set(
            problem, ERR_IMAGE_MISSING,
            "there is no image '%s'; list images with: limpet image ls, build one with: limpet image build",
            name);
    *ret_rootfs = take(rootfs);
    return 0;
}
