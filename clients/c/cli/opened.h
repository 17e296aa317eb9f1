/* What the command says of a branch or context that it has opened. */
#pragma once

#include "clients/c/cli/cli.h"

void opened_print(const LimpetOpened *opened, bool json);
