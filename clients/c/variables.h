/* Variables: what `namespace` and the `changed` of a record say of them. */
#pragma once

#include "clients/c/client.h"

int variables_read(const LimpetVariable **ret, size_t *ret_n, const msgpack_object_array *variables,
                   Arena *arena, Problem *problem);
int changed_read(const LimpetChanged **ret, const msgpack_object_map *changed, Arena *arena,
                 Problem *problem);
