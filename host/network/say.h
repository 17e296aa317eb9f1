/* Saying of bindings what is not secret. */
#pragma once

#include "proto/wire.h"

/* Writes a map of bindings (msgpack_object_map) without their headers. */
void network_write_public(Writer *w, const void *source);
