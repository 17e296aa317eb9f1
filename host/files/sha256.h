/* SHA-256 by libcrypto, and digests as text. */
#pragma once

#include "proto/base/base.h"

#define SHA256_SIZE     32u
#define SHA256_HEX_SIZE (2 * SHA256_SIZE + 1)

typedef struct Sha256 {
    struct evp_md_ctx_st *context;
} Sha256;

#define SHA256_NULL ((Sha256){NULL})

/* All return 0 or -ENOMEM. A Sha256 may be started again after it was finished. */
int sha256_start(Sha256 *sha);
int sha256_update(Sha256 *sha, const void *bytes, size_t size);
int sha256_finish(Sha256 *sha, uint8_t ret[SHA256_SIZE]);
void sha256_deinit(Sha256 *sha);

/* `size` bytes as lower-case hexadecimal, terminated: 2 * size + 1 characters. */
void hex_encode(char *ret, const uint8_t *bytes, size_t size);
