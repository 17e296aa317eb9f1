/* The egress process of a controller that starts it itself, where there is no launcher. */
#pragma once

#include "host/config/options.h"
#include "proto/base/loop.h"

typedef struct EgressChild {
    const Options *options;
    Loop *loop;
    LoopChild child;
} EgressChild;

/* An EgressStarter whose userdata is an EgressChild. */
int egress_child_start(void *userdata, int *ret_socket);
