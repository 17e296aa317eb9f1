/* Certificate: a pair of keys in a file, as ZeroMQ's tools write it. */
#pragma once

#include "proto/z85.h"

typedef struct Certificate {
    char public_key[Z85_KEY_SIZE + 1], secret_key[Z85_KEY_SIZE + 1];
} Certificate;

/* Reads a file, which stays the caller's. 0; -ENODATA when the file is empty; -EBADMSG when it has no keys;
 * or another negative errno. */
int certificate_read(Certificate *ret, int fd);
/* Writes it into an empty file, so that it is there after a crash. 0 or a negative errno. */
int certificate_write(const Certificate *certificate, int fd);
