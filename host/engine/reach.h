/* Looks whether this network namespace is closed, by connecting to what every pod of a cluster can reach
 * unless a policy keeps it from there: name servers, and the API server. */
#pragma once

#include <stdbool.h>

#define REACH_TEXT 80

/* Returns whether one of them answers within some seconds; *ret is its address. A policy takes effect a
 * moment after the pod begins: while one answers it is asked again. Blocks. */
bool reach_anything(char ret[static REACH_TEXT]);
