/* Outputs of a call, as nbformat has them. */
#pragma once

#include "clients/c/exporting/past_calls.h"

/* Writes the array `outputs` of a cell. */
void outputs_write(Writer *w, const PastCall *call);
