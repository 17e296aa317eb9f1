/* Forks: sessions that begin with a copy of what another one has: its live variables, and its files. Each has
 * a sandbox of its own, from the pool where there is one, and is one that is being restored until all have
 * what they are to have: with the client that asked for them, or the controller, they end.
 *
 *   origin   ── its turn ──► saves its memory ──► files are copied ──► goes on
 *   each     ── its sandbox is made ──► its first turn ─────────────► loads the memory ──► is whole, with the
 * others
 *
 * The memory goes through a pipe into one file, which all of them map: what nobody changes they share. */
#pragma once

#include "host/session/session.h"

/* Makes a session of each name, or none. `data` has each one's, NULL where it has none. The request is
 * answered. */
void session_fork(Session *origin, Request *request, const MsgFork *asked,
                  const RequestDirectory *const *data);
