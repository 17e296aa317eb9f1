/* Where the controller's loop runs. It and ZeroMQ's I/O thread hand every message to each other: on one
 * processor that costs a switch, on two a wake-up of the other one, which is most of a call's time. */
#pragma once

#include "proto/base/problem.h"

/* Binds the calling thread to one processor and raises its priority where that is allowed; threads it starts
 * inherit both. `core` is "auto" (the last processor this process may use), "off", or a processor's number,
 * which is refused when it is not one of them. Before any other thread is started. */
int scheduling_claim(const char *core, Problem *problem);
