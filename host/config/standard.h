/* Standard places, used when no option names another: for root in the system, for others below their home
 * directory. */
#pragma once

#include <stddef.h>

void standard_config(char *ret, size_t size);
void standard_state_dir(char *ret, size_t size);
void standard_runtime_dir(char *ret, size_t size);
