#include "host/files/sha256.h"

#include <errno.h>
#include <openssl/evp.h>

int sha256_start(Sha256 *sha)
{
    if (!sha->context)
        sha->context = EVP_MD_CTX_new();
    return sha->context && EVP_DigestInit_ex(sha->context, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

int sha256_update(Sha256 *sha, const void *bytes, size_t size)
{
    return EVP_DigestUpdate(sha->context, bytes, size) == 1 ? 0 : -ENOMEM;
}

int sha256_finish(Sha256 *sha, uint8_t ret[SHA256_SIZE])
{
    return EVP_DigestFinal_ex(sha->context, ret, NULL) == 1 ? 0 : -ENOMEM;
}

void sha256_deinit(Sha256 *sha)
{
    EVP_MD_CTX_free(sha->context);
    sha->context = NULL;
}

void hex_encode(char *ret, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < size; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[2 * size] = '\0';
}
