#include "clients/c/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>

#include "proto/base/fdio.h"

int digest_init(Digest *digest)
{
    if (!digest->context)
        digest->context = EVP_MD_CTX_new();
    return digest->context && EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

int digest_update(Digest *digest, const void *bytes, size_t size)
{
    return EVP_DigestUpdate(digest->context, bytes, size) == 1 ? 0 : -ENOMEM;
}

int digest_copy(Digest *to, const Digest *from)
{
    if (!to->context)
        to->context = EVP_MD_CTX_new();
    return to->context && EVP_MD_CTX_copy_ex(to->context, from->context) == 1 ? 0 : -ENOMEM;
}

int digest_finish(Digest *digest, char ret[static DIGEST_HEX_SIZE])
{
    uint8_t bytes[EVP_MAX_MD_SIZE];

    if (EVP_DigestFinal_ex(digest->context, bytes, NULL) != 1)
        return -ENOMEM;
    for (size_t i = 0; i < DIGEST_HEX_SIZE / 2; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

void digest_deinit(Digest *digest)
{
    EVP_MD_CTX_free(digest->context);
    digest->context = NULL;
}

int digest_of_file(int fd, char ret[static DIGEST_HEX_SIZE])
{
    _cleanup_(digest_deinit) Digest digest = DIGEST_NULL;
    uint8_t bytes[64 << 10];
    int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : digest_init(&digest);

    while (r == 0) {
        ssize_t n = read_whole(fd, bytes, sizeof(bytes));

        if (n <= 0)
            return n < 0 ? (int)n : digest_finish(&digest, ret);
        r = digest_update(&digest, bytes, (size_t)n);
    }
    return r;
}
