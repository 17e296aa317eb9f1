/* View: small files by which programs in a container find out what it may use, and its own name. They are
 * mounted over those of the kernel, which tell what the machine has, and of the image. They say what the
 * container was made with; what is in use they do not know. */
#pragma once

#include <limits.h>

#include "host/engine/engine.h"

/* A file or directory below the container's view, and the path it is mounted at. */
typedef struct ViewPart {
    const char *name, *target;
} ViewPart;

#define VIEW_PARTS 6
extern const ViewPart view_parts[VIEW_PARTS];

/* Makes RUNTIME_DIR/views/NAME, which goes to ret. 0 or a negative errno, and nothing made. */
int view_make(char ret[static PATH_MAX], const char *runtime_dir, const ContainerSpec *spec);

/* The container of that name is gone. It need not have had one. */
void view_remove(const char *runtime_dir, const char *name);
