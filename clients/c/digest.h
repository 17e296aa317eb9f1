/* SHA-256 by libcrypto, as lower-case hexadecimal. */
#pragma once

#include "proto/base/base.h"

#define DIGEST_HEX_SIZE 65u

typedef struct Digest {
    struct evp_md_ctx_st *context;
} Digest;

#define DIGEST_NULL ((Digest){NULL})

/* All return 0 or a negative errno. */
int digest_init(Digest *digest);
int digest_update(Digest *digest, const void *bytes, size_t size);
int digest_copy(Digest *to, const Digest *from); /* `to` may be DIGEST_NULL */
int digest_finish(Digest *digest, char ret[static DIGEST_HEX_SIZE]);
void digest_deinit(Digest *digest);

/* Finds the digest of a whole file. */
int digest_of_file(int fd, char ret[static DIGEST_HEX_SIZE]);
