/* Copying a file that may be changing, with its SHA-256. */
#pragma once

#include <sys/types.h>

#include "host/files/sha256.h"

typedef struct Copier {
    uint8_t *buffer;
    Sha256 sha;
    bool no_clone; /* the target's filesystem cannot share extents */
} Copier;

int copier_init(Copier *copier); /* 0 or -ENOMEM */
void copier_deinit(Copier *copier);

/* Copies `size` bytes of `from`, which is what its size was, to the empty file `to`; holes stay holes. The
 * digest is of the bytes that were written. 0; -ESTALE when the file turned out shorter; or another
 * negative errno. A change that leaves the size alone is for the caller to notice. */
int copier_copy(Copier *copier, int from, int to, off_t size, uint8_t ret_sha256[SHA256_SIZE]);
