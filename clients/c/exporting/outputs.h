/* What a call has shown, as nbformat has it. */
#pragma once

#include "clients/c/exporting/past_calls.h"

/* Writes the array `outputs` of a cell. */
void outputs_write(Writer *w, const PastCall *call);
