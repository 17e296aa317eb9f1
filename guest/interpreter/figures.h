/* Figures of matplotlib.pyplot. */
#pragma once

#include <stdbool.h>

/* Returns whether there may be figures: false where pyplot is not imported or has none open, told without
 * running any code. */
bool figures_are_open(void);
