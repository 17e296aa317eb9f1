/* Unpacked images: IMAGES/NAME/rootfs. Other names are links to a NAME, such as IMAGES/default.
 */
#pragma once

#include "host/engine/engine.h"

/* The image that the name stands for now, as far as it is there, otherwise that name: "" stands for the
 * configured image, and without that for the default one, if there is one. `size` bytes at ret. */
void image_resolve(const EngineConfig *config, const char *name, char *ret, size_t size);

/* The root file system of the image `name`, "" meaning the default one. IMAGE_MISSING in problem when it is
 * not there. The path is to be freed. */
int image_find(const EngineConfig *config, const char *name, char **ret_rootfs, Problem *problem);
