/* What a cell has shown, as its supervisor passes it on: the values are the cell's own words. */
#pragma once

#include "proto/wire.h"

/* Refuse what no honest supervisor sends: entries of a record, and the body of a `display` event. 0, or
 * negative with the problem set. */
int displays_check(const msgpack_object_array *displays, Problem *problem);
int display_check_event(const msgpack_object_map *body, Problem *problem);
