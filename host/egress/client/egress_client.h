/* The egress process as the controller sees it: it is started when the first sandbox may reach something, and
 * again whenever it ends; then it is told of all sandboxes anew. Connections end with it, and new ones can be
 * made. */
#pragma once

#include "proto/base/loop.h"
#include "proto/fields.h"

typedef struct EgressClient EgressClient;

/* Starts a process, which serves the socket and ends with that: a HelperProcessStarter. */
typedef int EgressStarter(void *userdata, int socket);

/* A sandbox that is served, embedded in its owner. */
typedef struct EgressPlace {
    List link;
    EgressClient *client; /* NULL: it is not served */
    uint64_t number;
    int arrivals; /* the socket that its supervisor connects to, and hands over connections of the sandbox */
    Buf allow, bindings; /* as the rules have them */
    char label[LIMIT_SESSION_PATH + 1];
    uint64_t limit;
    bool anywhere;
} EgressPlace;

/* Rules of what a sandbox may reach. */
typedef struct EgressRules {
    const char *label;           /* in log lines */
    const Buf *allow, *bindings; /* as options have them, encoded, and checked */
    uint64_t limit;              /* bytes that may go either way; 0: any */
    bool anywhere;               /* names in them may have any address but this machine's */
} EgressRules;

/* 0 or -ENOMEM. */
int egress_client_new(EgressClient **ret, Loop *loop, EgressStarter *start, void *userdata);
EgressClient *egress_client_free(EgressClient *client);

/* Serves it from now on, or by other rules. `socket` is the path of the socket, made when it is not served
 * yet. 0 or a negative errno, and it is as it was. */
int egress_serve(EgressClient *client, EgressPlace *place, const char *socket, const EgressRules *rules);
/* Ends the service of a place. One that is not served is left alone. */
void egress_forget(EgressPlace *place);
/* Says where the log is from now on. */
void egress_client_say_log(EgressClient *client);
