/* The records of sessions that have ended, and their epitaphs, in ended/INSTANCE below the state directory,
 * for the STORED_RUN_SECONDS they may still be asked for: a controller that is started meanwhile gives the
 * same answers. Those of all sessions together are bounded; the oldest go first. */
#pragma once

#include "host/controller.h"

void ended_init(Controller *controller);
void ended_deinit(Controller *controller); /* the files stay */

/* Keeps what is stored of a session that is about to be freed. */
void ended_keep(const Session *session);

/* Loads what earlier controllers kept, when all sessions have been adopted. */
void ended_load(Controller *controller);
