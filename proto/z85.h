/* Z85: keys as text, as ZeroMQ writes them: five characters for four bytes. Pure. */
#pragma once

#include "proto/base/base.h"

#define Z85_KEY_SIZE 40u /* characters of a key, which has 32 bytes */

/* Writes the text of a key and its final NUL. */
void z85_encode_key(char ret[static Z85_KEY_SIZE + 1], const uint8_t key[static 32]);
/* Decodes the text of a key; reads as many characters as a key has. False when they are none. */
bool z85_decode_key(uint8_t ret[static 32], const char *text);
