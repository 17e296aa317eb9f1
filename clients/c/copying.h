/* Copying between descriptors, holes as holes. */
#pragma once

#include <stdint.h>

/* Leaves `size` bytes that are zero: a hole where `fd` can have one at its position. 0 or a negative errno.
 */
int skip_bytes(int fd, uint64_t size);

/* A hole at the end of a file has nothing behind it that would make the file as long as it is. */
int set_end(int fd);

/* Copies what a regular file has from its position on to the position of the other. 0 or a negative errno. */
int copy_rest(int from, int to);
