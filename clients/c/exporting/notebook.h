/* The calls of a session as a notebook, nbformat 4.5. Texts and displays are hostile code's. */
#pragma once

#include "clients/c/exporting/past_calls.h"

/* `python` is the version of it. */
void notebook_write(Writer *w, const PastCalls *past, Text python);
