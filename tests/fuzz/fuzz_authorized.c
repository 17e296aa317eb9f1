/* The file of keys that are let in, and a pair of keys: whatever is taken is within bounds, and means the
 * same when it is written down and read again. */
#include <stdlib.h>
#include <string.h>

#include "host/net/authorized.h"
#include "proto/certificate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
    if (!good)
        abort();
}

static void check(const Authorized *authorized)
{
    require(authorized->n <= AUTHORIZED_KEYS_MAX);
    for (size_t i = 0; i < authorized->n; i++) {
        const AuthorizedKey *key = &authorized->keys[i], *of_owner = authorized_of(authorized, key->owner);
        char again[Z85_KEY_SIZE + 1];
        uint8_t bytes[32];

        require(z85_decode_key(bytes, key->key));
        z85_encode_key(again, bytes);
        require(strcmp(again, key->key) == 0);
        require(authorized_find(authorized, key->key) == key && key->connections > 0);
        require(of_owner->sessions == key->sessions && of_owner->memory == key->memory);
        require(strlen(key->name) < sizeof(key->name) && !strpbrk(key->name, " \t\n\""));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Authorized authorized _cleanup_(authorized_deinit) = {0};
    Problem problem = PROBLEM_NULL;

    if (authorized_parse(&authorized, (Text){(const char *)data, size}, &problem) == 0)
        check(&authorized);
    else
        require(*problem.text && !authorized.keys);
    return 0;
}
