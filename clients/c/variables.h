/* Variables: what `namespace` and the `changed` of a record say of them. */
#pragma once

#include "clients/c/client.h"

const LimpetChanged *changed_read(const MsgChanged *said, Arena *arena);
