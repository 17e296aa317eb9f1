/* Unpacked images: STATE/images/NAME/rootfs, with STATE/images/default a link to the NAME of the default one.
 */
#pragma once

#include "host/engine/engine.h"

/* The default image: the configured one, otherwise where the link points. "" when there is none. `size` bytes
 * at ret. */
void image_default(const EngineConfig *config, char *ret, size_t size);

/* The root file system of the image `name`, "" meaning the default one. IMAGE_MISSING in problem when it is
 * not there. The path is to be freed. */
int image_find(const EngineConfig *config, const char *name, char **ret_rootfs, Problem *problem);
