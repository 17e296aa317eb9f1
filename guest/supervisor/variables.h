/* What the interpreter says of its variables: its own words, checked in type, count and size, then passed on.
 */
#pragma once

#include "proto/wire.h"

/* `changed` of an `executed`. 0, or -EPROTO with a Problem. */
int variables_check_changed(const msgpack_object_map *changed, Problem *problem);

/* The body of an answer to `namespace`. 0, or -EPROTO with a Problem. */
int variables_check_namespace(const msgpack_object_map *body, Problem *problem);
