/* Bytes of a unix stream socket, with a descriptor beside them. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Sends what the peer takes at once, `fd` beside its first byte. How many bytes, or a negative errno, such as
 * -EAGAIN; then nothing has been sent. */
ssize_t send_passing(int socket, const void *bytes, size_t size, int fd);

/* Reads once without waiting. A descriptor beside what is read is the caller's from then on, in *ret_fd;
 * otherwise *ret_fd stays as it is. How many bytes, 0 at the end, or a negative errno. */
ssize_t receive_passed(int socket, void *to, size_t size, int *ret_fd);
