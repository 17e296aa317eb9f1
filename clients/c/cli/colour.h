/* Colours on a terminal that has them. NO_COLOR in the environment, if not empty, forbids them. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

bool colour_wanted(FILE *file);

/* A traceback of Python, with a line end; its parts in colours where they are wanted. */
void colour_traceback(FILE *file, const char *traceback);
