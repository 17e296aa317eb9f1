#include "host/egress/sealed.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

int sealed_append(Buf *buf, Text sealed)
{
    const uint32_t n = (uint32_t)sealed.size;
    const uint8_t size[] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    int r = sealed.size > SEALED_MOST ? -EMSGSIZE : buf_append(buf, size, sizeof(size));

    return r < 0 ? r : buf_append(buf, sealed.data, sealed.size);
}

/* The bytes of base64; negative where it is none. */
static ssize_t decode(uint8_t *ret, Text text)
{
    size_t padding = 0;
    int n;

    while (padding < 2 && padding < text.size && text.data[text.size - 1 - padding] == '=')
        padding++;
    n = text.size % 4 == 0 ? EVP_DecodeBlock(ret, (const unsigned char *)text.data, (int)text.size) : -1;
    return n < (int)(padding + SEALED_TAG) ? -EBADMSG : n - (ssize_t)padding;
}

/* Deciphers the bytes in place, which have the tag. 0, -EBADMSG where they do not, or -ENOMEM. */
static int decipher(uint8_t *bytes, size_t size, uint8_t tag[static SEALED_TAG], Text key)
{
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-SIV", NULL);
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];
    int n, r = -ENOMEM;

    if (cipher && context && EVP_Digest(key.data, key.size, digest, NULL, EVP_sha512(), NULL) == 1 &&
        EVP_DecryptInit_ex2(context, cipher, digest, NULL, NULL) == 1 &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, SEALED_TAG, tag) == 1)
        r = EVP_DecryptUpdate(context, bytes, &n, bytes, (int)size) == 1 ? 0 : -EBADMSG;
    OPENSSL_cleanse(digest, sizeof(digest));
    EVP_CIPHER_CTX_free(context);
    EVP_CIPHER_free(cipher);
    return r;
}

int sealed_open(Buf *ret, uint8_t ret_tag[static SEALED_TAG], Text key, Text sealed)
{
    uint8_t bytes[SEALED_MOST];
    ssize_t n = sealed.size > 0 && sealed.size <= SEALED_MOST ? decode(bytes, sealed) : -EBADMSG;
    int r;

    if (n < 0)
        return (int)n;
    memcpy(ret_tag, bytes, SEALED_TAG);
    r = decipher(bytes + SEALED_TAG, (size_t)n - SEALED_TAG, ret_tag, key);
    if (r == 0)
        r = buf_append(ret, bytes + SEALED_TAG, (size_t)n - SEALED_TAG);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}
