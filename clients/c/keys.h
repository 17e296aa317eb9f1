/* Keys for a controller on another machine: the client's pair, and the controller's public key. */
#pragma once

#include <limits.h>

#include "proto/base/problem.h"
#include "proto/certificate.h"

typedef struct RemoteKeys {
    Certificate own;
    char server[Z85_KEY_SIZE + 1];
} RemoteKeys;

/* $LIMPET_KEY, or limpet.key_secret in the user's directory of configuration. */
void keys_path(char ret[static PATH_MAX]);

/* The pair of that file, and $LIMPET_SERVER_KEY. 0, or negative with the problem set. */
int keys_find(RemoteKeys *ret, Problem *problem);
