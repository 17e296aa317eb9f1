/* Unreported: the words that the next record of a branch has to say of the time before it. The controller
 * keeps them while the session is saved, as no record can tell of it then. */
#pragma once

#include "guest/supervisor/branch/branch.h"

/* Returns false where there is nothing. *ret points into the branch. */
bool branch_say_unreported(const Branch *branch, MsgUnreported *ret);
/* A branch that goes on with what was saved tells it. */
void branch_take_unreported(Branch *branch, const MsgUnreported *said);
