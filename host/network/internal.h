/* Shared by network.c and binding.c. */
#pragma once

#include "host/network/network.h"

/* NULL: none. */
int network_read_bindings(Network *network, const msgpack_object_map *bindings, Problem *problem);
void network_free_bindings(Network *network);
