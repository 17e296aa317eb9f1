/* LauncherRequest: what the controller asks of the launcher, read from a message of which nothing is
 * believed. Pure. What comes out of here is one of a closed set, every text in it has a pattern, every number
 * is within bounds, and no path is the controller's. */
#pragma once

#include "host/files/disk.h"
#include "host/privilege/launcher_protocol.h"

#define REQUEST_NAME_SIZE      64
#define REQUEST_IMAGE_SIZE     256
#define REQUEST_DIRECTORY_SIZE (NAME_MAX + 1)
#define REQUEST_LINK_SIZE      33
#define REQUEST_NETWORK_SIZE   8
#define REQUEST_PACKAGES_SIZE  65
#define REQUEST_LABEL_SIZE     (LIMIT_SESSION_PATH + 1)

/* Rules of the launcher's own configuration. */
typedef struct LauncherRequestRules {
    const char *owner;         /* in the names of containers */
    const char *allow_network; /* besides none, with commas */
} LauncherRequestRules;

typedef struct LauncherRequest {
    LauncherKind kind;
    char engine[16];                        /* begin: "", or a name */
    char container[REQUEST_NAME_SIZE];      /* limpet-OWNER-, and 16 hexadecimal digits */
    char directory[REQUEST_DIRECTORY_SIZE]; /* one component, which is not hidden */
    char link[REQUEST_LINK_SIZE];           /* hexadecimal digits */
    char session[REQUEST_LABEL_SIZE];
    char image[REQUEST_IMAGE_SIZE];
    char network[REQUEST_NETWORK_SIZE];
    char packages[REQUEST_PACKAGES_SIZE]; /* 64 hexadecimal digits */
    char path[PATH_MAX]; /* open: absolute. The one path, which `user` may open for reading */
    uid_t user;
    bool work, data;
    unsigned pids;
    uint64_t memory, largest_file;
    double cpus;
    DiskSize disk;
    Problem problem; /* unable */
} LauncherRequest;

/* Returns the number of descriptors that have to come with a request: one for /data, or the connection of a
 * client, then the socket for the answer to a question. */
size_t launcher_request_descriptors(const LauncherRequest *request);

/* 0, or -EBADMSG: the controller never says that, unless somebody else speaks for it. */
int launcher_request_read(LauncherRequest *ret, const Message *message, const LauncherRequestRules *rules);
