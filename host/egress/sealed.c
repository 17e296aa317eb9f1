#include "host/egress/sealed.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

int sealed_append(Buf *buf, Text sealed)
{
    const uint32_t n = (uint32_t)sealed.size;
    const uint8_t size[] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    int r = sealed.size > SEALED_MOST ? -EMSGSIZE : buf_append(buf, size, sizeof(size));

    return r < 0 ? r : buf_append(buf, sealed.data, sealed.size);
}

/* HMAC-SHA256. */
static int authenticate(uint8_t ret[static SEALED_TAG], Text key, Text bytes)
{
    unsigned n = SEALED_TAG;

    return HMAC(EVP_sha256(), key.data, (int)key.size, (const unsigned char *)bytes.data, bytes.size, ret, &n)
               ? 0
               : -ENOMEM;
}

static Text derived(uint8_t ret[static SEALED_TAG], Text key, const char *purpose)
{
    return authenticate(ret, key, text_of(purpose)) < 0 ? (Text){0} : (Text){(const char *)ret, SEALED_TAG};
}

/* Takes the stream of a key and a tag off, or puts it on. */
static int mix(uint8_t *bytes, size_t size, Text key, const uint8_t tag[static SEALED_TAG])
{
    uint8_t stream[SEALED_MOST];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int r = context && EVP_DigestInit_ex(context, EVP_shake256(), NULL) == 1 &&
                    EVP_DigestUpdate(context, key.data, key.size) == 1 &&
                    EVP_DigestUpdate(context, tag, SEALED_TAG) == 1 &&
                    EVP_DigestFinalXOF(context, stream, size) == 1
                ? 0
                : -ENOMEM;

    EVP_MD_CTX_free(context);
    for (size_t i = 0; r == 0 && i < size; i++)
        bytes[i] ^= stream[i];
    OPENSSL_cleanse(stream, sizeof(stream));
    return r;
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

int sealed_open(Buf *ret, uint8_t ret_tag[static SEALED_TAG], Text key, Text sealed)
{
    uint8_t bytes[SEALED_MOST], mac[SEALED_TAG], stream[SEALED_TAG], tag[SEALED_TAG];
    ssize_t n = sealed.size > 0 && sealed.size <= SEALED_MOST ? decode(bytes, sealed) : -EBADMSG;
    Text mac_key = derived(mac, key, "mac"), stream_key = derived(stream, key, "stream"), rules;
    int r;

    if (n < 0)
        return (int)n;
    if (!mac_key.data || !stream_key.data)
        return -ENOMEM;
    rules = (Text){(const char *)bytes + SEALED_TAG, (size_t)n - SEALED_TAG};
    memcpy(ret_tag, bytes, SEALED_TAG);
    r = mix(bytes + SEALED_TAG, rules.size, stream_key, ret_tag);
    if (r == 0)
        r = authenticate(tag, mac_key, rules);
    if (r == 0 && CRYPTO_memcmp(tag, ret_tag, SEALED_TAG) != 0)
        r = -EBADMSG;
    if (r == 0)
        r = buf_append(ret, rules.data, rules.size);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return r;
}
