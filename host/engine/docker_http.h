/* HTTP to the Docker Engine over its unix socket, on the loop. The only file that knows libcurl. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/base/loop.h"

typedef struct DockerHttp DockerHttp;
typedef struct DockerCall DockerCall;

/* Reply to a request. The body lives until the callback returns. */
typedef struct DockerReply {
    long status;         /* of HTTP; 0 when there was no whole answer */
    const char *failure; /* why there was none; NULL */
    const char *body;
    size_t size;
} DockerReply;

typedef void (*DockerDone)(void *userdata, const DockerReply *reply);

int docker_http_new(Loop *loop, const char *socket, DockerHttp **ret);
/* Calls under way are cancelled. Not from within a callback. */
DockerHttp *docker_http_free(DockerHttp *http);

/* Starts a request; `body` is JSON or NULL, and copied; 0 seconds: no time limit. `done` comes once, never
 * from here, unless the call is cancelled. */
int docker_http_start(DockerHttp *http, const char *method, const char *path, const char *body,
                      double seconds, DockerDone done, void *userdata, DockerCall **ret);
void docker_call_cancel(DockerCall *call);

/* A GET that blocks. Fills `body`, and `api_version` (16 bytes, may be NULL) from the header of that name.
 * Returns the HTTP status, or a negative errno when there was no whole answer. */
long docker_http_get(const char *socket, const char *path, double seconds, Buf *body, char *api_version);

/* Settles the version of the API, 1.*ret_minor, with an engine whose newest is `version`. Blocks for a
 * moment. -EPROTONOSUPPORT when no version is common to both; another negative errno when no Docker Engine
 * answers. */
#define DOCKER_API_LEAST 40u
int docker_http_negotiate(const char *socket, char version[static 16], unsigned *ret_minor);
