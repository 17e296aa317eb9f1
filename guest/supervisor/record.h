/* The record of a call as the controller gets it. */
#pragma once

#include "guest/supervisor/cell.h"

/* Encodes `executed` into `ret`, which is empty before. The cell's outcome is settled. 0, -ENOBUFS or
 * -ENOMEM. */
int cell_record(Cell *cell, const Fate *fate, uint64_t epoch, Buf *ret);
