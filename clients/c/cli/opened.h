/* Message of a command that has opened a branch or context. */
#pragma once

#include "clients/c/cli/cli.h"

void opened_print(const LimpetOpened *opened, bool json);
