/* Templates: empty file systems that new disks are copies of. mke2fs takes milliseconds, the copy a tenth of
 * one, because all that is written of such a file system is a few dozen KiB.
 *
 * They are made when a disk of their size is first asked for, and live in sealed memory of this process: on
 * no disk, under no name. So there is nothing to be found broken, nothing that anybody else could change, and
 * nothing to remove, however the process ends. Copies differ in nothing, not in their UUID either, by which
 * nothing here looks for a file system. */
#pragma once

#include "host/files/disk_image.h"

/* Sizes that have a template. One more takes the place of the size that was asked for least recently. */
#define DISK_TEMPLATES_MAX 8u

/* Makes the file `name` in `directory`, sparse, with an empty file system of that size. What has that name is
 * replaced. For worker threads, any number at once: may run mke2fs. A descriptor of the file, by which it is
 * to be mounted, as others may write to the directory; or -EPROTO with the problem set and no such file. */
int disk_template_make(int directory, const char *name, DiskSize size, Problem *problem);

/* Forgets all of them: for tests. */
void disk_templates_forget(void);
