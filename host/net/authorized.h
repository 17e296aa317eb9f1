/* Authorized: the keys that are let in over a network, from the file that says so. A line is a public key,
 * then words `name=value`; what follows a # is a comment:
 *
 *   KEY owner=USER [name=TEXT] [connections=COUNT] [sessions=COUNT] [memory=SIZE]
 *
 * Of the two readers each reads for itself: the controller, which decides whose sessions a connection has,
 * and the process that holds the network. */
#pragma once

#include <sys/types.h>

#include "proto/certificate.h"
#include "proto/base/problem.h"
#include "proto/wire.h"

#define AUTHORIZED_FILE_MAX    (1u << 20)
#define AUTHORIZED_KEYS_MAX    4096u
#define AUTHORIZED_CONNECTIONS 64u /* of a key whose line sets none */

typedef struct AuthorizedKey {
    char key[Z85_KEY_SIZE + 1];
    char name[65]; /* in log lines; "": the owner's number */
    uid_t owner;
    uint64_t connections;      /* at once */
    uint64_t sessions, memory; /* the owner's together; 0: as the controller's options say */
} AuthorizedKey;

typedef struct Authorized {
    AuthorizedKey *keys;
    size_t n;
} Authorized;

void authorized_deinit(Authorized *authorized);

/* 0, or negative with the problem set, which names the line. */
int authorized_parse(Authorized *ret, Text text, Problem *problem);

/* Reads the file, which nobody else may write to, and returns a descriptor of what it means: the same with
 * users as numbers, which authorized_read() takes. Or negative with the problem set. */
int authorized_load(const char *path, Problem *problem);
/* Reads such a descriptor, which stays the caller's, from its beginning. */
int authorized_read(Authorized *ret, int fd, Problem *problem);

/* NULL: it is not among them. */
const AuthorizedKey *authorized_find(const Authorized *authorized, const char *key);
/* The first of a user's, which says what limits he has; or NULL. */
const AuthorizedKey *authorized_of(const Authorized *authorized, uid_t owner);
