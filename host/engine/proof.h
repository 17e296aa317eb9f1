/* The proof that the network namespace of a pod is closed: nothing answers of what every pod of a cluster can
 * reach unless a policy keeps it from there, which are the servers of names and the API server. A policy
 * takes effect a moment after the pod begins, so while one answers, it is asked again for some seconds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addrinfo;

#define SERVERS_MOST 4
#define REACH_TEXT   80

typedef enum Reach { REACH_UNKNOWN, REACH_NOTHING, REACH_SOMETHING } Reach;

typedef struct Proof {
    struct addrinfo *servers[SERVERS_MOST];
    int asked[SERVERS_MOST]; /* connections; -1: there is none any more */
    size_t n;
    unsigned attempts;
    bool answered;
    uint64_t due; /* who is silent until then does not answer; after an answer: the next attempt */
    Reach reach;
    char address[REACH_TEXT]; /* of the server that has answered */
} Proof;

/* Begins one whose memory is zero. */
void proof_begin(Proof *proof);

/* Looks what has come of it. Does not wait: some looks, each a moment after the other, take it to its end. */
Reach proof_look(Proof *proof);

void proof_end(Proof *proof);
