/* Demand: what the controller asks of the launcher, read from a message of which nothing is believed. Pure.
 * What comes out of here is one of a closed set, every text in it has a pattern, every number is within
 * bounds, and no path is the controller's. */
#pragma once

#include "host/files/disk.h"
#include "host/privilege/launcher_protocol.h"

#define DEMAND_NAME_SIZE      64
#define DEMAND_IMAGE_SIZE     256
#define DEMAND_DIRECTORY_SIZE (NAME_MAX + 1)
#define DEMAND_LINK_SIZE      33
#define DEMAND_NETWORK_SIZE   8
#define DEMAND_PACKAGES_SIZE  65
#define DEMAND_LABEL_SIZE     (LIMIT_SESSION_PATH + 1)

/* Rules of the launcher's own configuration. */
typedef struct DemandRules {
    const char *owner;         /* in the names of containers */
    const char *allow_network; /* besides none, with commas */
} DemandRules;

typedef struct Demand {
    SeamKind kind;
    char engine[16];                       /* begin: "", or a name */
    char container[DEMAND_NAME_SIZE];      /* limpet-OWNER-, and 16 hexadecimal digits */
    char directory[DEMAND_DIRECTORY_SIZE]; /* one component, which is not hidden */
    char link[DEMAND_LINK_SIZE];           /* hexadecimal digits */
    char session[DEMAND_LABEL_SIZE];
    char image[DEMAND_IMAGE_SIZE];
    char network[DEMAND_NETWORK_SIZE];
    char packages[DEMAND_PACKAGES_SIZE]; /* 64 hexadecimal digits */
    char path[PATH_MAX];                 /* open: absolute. The one path, which `user` may open for reading */
    uid_t user;
    bool work, data;
    unsigned pids;
    uint64_t memory, largest_file;
    double cpus;
    DiskSize disk;
    Problem problem; /* unable */
} Demand;

/* Returns the number of descriptors that have to come with a demand: one for /data, or the connection of a
 * client, then the socket for the answer to a question. */
size_t demand_descriptors(const Demand *demand);

/* 0, or -EBADMSG: the controller never says that, unless somebody else speaks for it. */
int demand_read(Demand *ret, const Message *message, const DemandRules *rules);
