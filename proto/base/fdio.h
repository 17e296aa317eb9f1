/* Reading and writing descriptors as a whole. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Writes all of it, however often the kernel takes only a part. 0 or a negative errno; a part may then have
 * been written. */
int write_all(int fd, const void *bytes, size_t size);

/* Reads until there are `size` bytes or the end. How many, or a negative errno. */
ssize_t read_whole(int fd, void *to, size_t size);
