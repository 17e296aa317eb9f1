/* Packet: an encoded message with descriptors, on its way over a socket. */
#pragma once

#include "proto/base/list.h"
#include "proto/fields.h"

#define RPC_PACKET_MAX      (64u << 10)
#define RPC_DESCRIPTORS_MAX 8u

/* Descriptors that came with a message: whoever handles it takes out what it keeps, the rest is closed. */
typedef struct Descriptors {
    int fd[RPC_DESCRIPTORS_MAX];
    size_t n;
} Descriptors;

/* Returns the descriptor, the caller's from now on; -1 when it did not come, or was taken. */
int descriptors_take(Descriptors *descriptors, size_t i);
void descriptors_close(Descriptors *descriptors);

typedef struct Packet {
    List link;
    Buf bytes;
    Descriptors descriptors; /* its own */
} Packet;

/* NULL with a negative errno in *ret_error. */
Packet *packet_new(unsigned kind, uint64_t id, const Schema *schema, const void *body, const int *descriptors,
                   size_t n, int *ret_error);
Packet *packet_free(Packet *packet);
DEFINE_CLEANUP(Packet *, packet_free);

/* 0, -EAGAIN when the peer takes nothing for now, or another negative errno. Does not wait. */
int packet_send(int socket, const Packet *packet);

/* Receives one into `bytes`, which has room for RPC_PACKET_MAX, and returns its size; 0 when the peer is
 * gone, or has sent nothing at all, which is the same. -EAGAIN; -EMSGSIZE for one that is larger or brings
 * more descriptors; or another negative errno. Does not wait. */
ssize_t packet_receive(int socket, uint8_t *bytes, Descriptors *ret);
