/* The egress process: what sandboxes reach of the network goes through it. It speaks HTTP as a proxy to code
 * that may be hostile, finds names, checks addresses and connects, with the rights of nobody. The controller
 * tells it whom it serves. */
#pragma once

#include "proto/base/problem.h"

/* Serves the controller at the other end of the socket until that is gone. 0, or negative with the problem
 * set. */
int egress_serve_controller(int socket, Problem *problem);
