/* Keys of clients and controllers on different machines, as ZeroMQ writes them. */
#pragma once

#include "proto/base/base.h"

/* Z85: keys as text, five characters for four bytes. */

#define Z85_KEY_SIZE 40u /* characters of a key, which has 32 bytes */

/* Writes the text of a key and its final NUL. */
void z85_encode_key(char ret[static Z85_KEY_SIZE + 1], const uint8_t key[static 32]);
/* Decodes the text of a key; reads as many characters as a key has. False when they are none. */
bool z85_decode_key(uint8_t ret[static 32], const char *text);

/* Certificate: a pair of keys in a file, as ZeroMQ's tools write it. */

typedef struct Certificate {
    char public_key[Z85_KEY_SIZE + 1], secret_key[Z85_KEY_SIZE + 1];
} Certificate;

/* Reads a file, which stays the caller's. 0; -ENODATA when the file is empty; -EBADMSG when it has no keys;
 * or another negative errno. */
int certificate_read(Certificate *ret, int fd);
/* Writes it into an empty file, so that it is there after a crash. 0 or a negative errno. */
int certificate_write(const Certificate *certificate, int fd);
