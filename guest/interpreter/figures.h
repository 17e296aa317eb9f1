/* Figures of matplotlib.pyplot. */
#pragma once

#include <stdbool.h>

/* Whether there may be some: false where pyplot is not imported or has none open, told without running any
 * code. */
bool figures_are_open(void);
