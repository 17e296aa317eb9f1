/* ZmqLibrary: libzmq, which is loaded when something is reached over a network: what it depends on costs
 * every start of a program otherwise. */
#pragma once

#include <zmq.h>

#define ZMQ_FUNCTIONS(F)                                                                                     \
    F(zmq_ctx_new)                                                                                           \
    F(zmq_ctx_term)                                                                                          \
    F(zmq_socket)                                                                                            \
    F(zmq_close)                                                                                             \
    F(zmq_setsockopt)                                                                                        \
    F(zmq_connect)                                                                                           \
    F(zmq_socket_monitor)                                                                                    \
    F(zmq_msg_init)                                                                                          \
    F(zmq_msg_recv)                                                                                          \
    F(zmq_msg_data)                                                                                          \
    F(zmq_msg_size)                                                                                          \
    F(zmq_msg_close)                                                                                         \
    F(zmq_send)                                                                                              \
    F(zmq_poll)                                                                                              \
    F(zmq_curve_keypair)

typedef struct ZmqLibrary {
#define ZMQ_MEMBER(name) __typeof__(&name) name;
    ZMQ_FUNCTIONS(ZMQ_MEMBER)
#undef ZMQ_MEMBER
} ZmqLibrary;

/* NULL where it is not installed. */
const ZmqLibrary *zmq_library(void);
