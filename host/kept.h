/* Kept: what ended sessions leave is looked over now and then, and what is too old or too much of it goes
 * (options keep_for and keep_size). Nothing of a session that is open does. */
#pragma once

#include "host/controller.h"

/* Begins to: after the sessions of an earlier controller were adopted. */
void kept_begin(Controller *controller);
/* A session has ended: it is looked soon. */
void kept_wake(Controller *controller);
void kept_end(Controller *controller);
