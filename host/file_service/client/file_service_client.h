/* FileServiceClient: how the controller asks the file service. */
#pragma once

#include <sys/types.h>

#include "host/file_service/protocol.h"
#include "proto/base/loop.h"

typedef struct FileServiceClient FileServiceClient;

/* Outcome of a request. */
typedef struct FileServiceAnswer {
    const Problem *problem; /* NULL when it was done */
    const JobAnswer *body;  /* NULL when it was not; valid until the callee returns */
    Descriptors descriptors;
} FileServiceAnswer;

/* In place of a user: what no session asks for. */
#define NOBODYS ((uid_t)-1)

typedef void FileServiceDone(void *userdata, FileServiceAnswer *answer);

/* With a file service in this process, on threads. 0 or a negative errno. */
int file_service_client_new(FileServiceClient **ret, Loop *loop, const char *state_dir, bool has_disks);

/* With one in another process, which serves the other end of a stream socket. The descriptor is the client's
 * from now on. When that process ends so does this one: the next controller takes the sessions over. 0 or a
 * negative errno. */
int file_service_client_connect(FileServiceClient **ret, Loop *loop, int fd);

/* Waits for what is under way; in another process at most a minute, after which that does the rest alone. */
FileServiceClient *file_service_client_free(FileServiceClient *client);
DEFINE_CLEANUP(FileServiceClient *, file_service_client_free);

/* Asks for a job, for that user; `done` is told on the loop and never from within this, also of what went
 * wrong, unless this returns a negative errno. Of slow ones a few are under way at once, and of one user
 * never all of those: the others wait here, and the users take turns. The others are done in the order they
 * are asked in. */
int file_service_ask(FileServiceClient *client, uid_t user, JobKind kind, const void *request,
                     FileServiceDone *done, void *userdata);

/* The same with a descriptor, which is taken over in any case. */
int file_service_pass(FileServiceClient *client, uid_t user, JobKind kind, const void *request, int fd,
                      FileServiceDone *done, void *userdata);

/* Asks for one that is not slow and that nobody waits for: the log tells of a failure. */
void file_service_tell(FileServiceClient *client, JobKind kind, const void *request);
