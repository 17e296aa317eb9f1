/* KeeperClient: how the controller asks the keeper of files. */
#pragma once

#include <sys/types.h>

#include "host/keeper/protocol.h"
#include "proto/base/loop.h"

typedef struct KeeperClient KeeperClient;

/* Outcome of a request. */
typedef struct KeeperAnswer {
    const Problem *problem; /* NULL when it was done */
    const JobAnswer *body;  /* NULL when it was not; valid until the callee returns */
    Descriptors descriptors;
} KeeperAnswer;

/* In place of a user: what no session asks for. */
#define NOBODYS ((uid_t)-1)

typedef void KeeperDone(void *userdata, KeeperAnswer *answer);

/* With a keeper in this process, on threads. 0 or a negative errno. */
int keeper_client_new(KeeperClient **ret, Loop *loop, const char *state_dir, bool has_disks);

/* With one in another process, which serves the other end of a stream socket. The descriptor is the client's
 * from now on. When that process ends so does this one: the next controller takes the sessions over. 0 or a
 * negative errno. */
int keeper_client_connect(KeeperClient **ret, Loop *loop, int fd);

/* Waits for what is under way; in another process at most a minute, after which that does the rest alone. */
KeeperClient *keeper_client_free(KeeperClient *client);
DEFINE_CLEANUP(KeeperClient *, keeper_client_free);

/* Asks for a job, for that user; `done` is told on the loop and never from within this, also of what went
 * wrong, unless this returns a negative errno. Of slow ones a few are under way at once, and of one user
 * never all of those: the others wait here, and the users take turns. The others are done in the order they
 * are asked in. */
int keeper_ask(KeeperClient *client, uid_t user, JobKind kind, const void *request, KeeperDone *done,
               void *userdata);

/* Asks for one that is not slow and that nobody waits for: the log tells of a failure. */
void keeper_tell(KeeperClient *client, JobKind kind, const void *request);
