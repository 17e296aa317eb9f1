/* What the interpreter says about a cell that ended by itself: checked, but its own words. */
#pragma once

#include "guest/supervisor/displays.h"

/* Points into the message; its displays are added to `displays`. 0, or -EPROTO with a Problem. */
int executed_decode(MsgCellExecuted *ret, Displays *displays, const msgpack_object_map *body,
                    Problem *problem);
