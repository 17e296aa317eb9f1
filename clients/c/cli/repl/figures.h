/* Figures: pictures that code displays, in files for a person to look at. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/base/base.h"

typedef struct Figures {
    char *directory; /* made with the first one, and left */
    unsigned count;
} Figures;

/* Shows a display on standard output: its text, and where its picture was saved. Of the value of an
 * expression the text is known already. */
void figures_show(Figures *figures, const LimpetDisplay *display);
void figures_deinit(Figures *figures);
