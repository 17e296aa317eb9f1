/* Reading and writing descriptors as a whole. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Writes all of it, however often the kernel takes only a part. 0 or a negative errno; a part may then have
 * been written. */
int write_all(int fd, const void *bytes, size_t size);

/* Reads until there are `size` bytes or the end. How many, or a negative errno. */
ssize_t read_whole(int fd, void *to, size_t size);
/* Likewise from `offset` in a file; -1: from where the descriptor stands. */
ssize_t read_whole_at(int fd, void *to, size_t size, off_t offset);

/* Bytes of a unix stream socket, with a descriptor beside them. */

/* Sends what the peer takes at once, `fd` beside its first byte. How many bytes, or a negative errno, such as
 * -EAGAIN; then nothing has been sent. */
ssize_t send_passing(int socket, const void *bytes, size_t size, int fd);

/* Reads once without waiting. A descriptor beside what is read is the caller's from then on, in *ret_fd;
 * otherwise *ret_fd stays as it is. How many bytes, 0 at the end, or a negative errno. */
ssize_t receive_passed(int socket, void *to, size_t size, int *ret_fd);
