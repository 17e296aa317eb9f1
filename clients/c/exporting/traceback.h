/* The traceback of an error, as nbformat has it. */
#pragma once

#include "proto/wire.h"

/* Writes an array of its lines; of one that is absent, a line with the error. */
void traceback_write(Writer *w, Text traceback, Text name, Text message);
