/* LimpetOptions on the wire: as fields of `open`, and as the map `options` of `run`. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/schema.h"

/* Checks that the options can be put on the wire at all; the controller judges their values. */
int options_check(const LimpetClient *client, const LimpetOptions *options, Problem *problem);

/* Returns whether `data` is a directory of this machine that another one is to have: only an open session
 * can. */
bool options_copies_data(const LimpetClient *client, const LimpetOptions *options);

/* The same of "NAME=value" strings, then NULL; and what they are on the wire. NULL counts as none. */
int env_check(const char *const *env, Problem *problem);
Value env_say(const char *const *env);

/* Returns the options that were given, pointing into `options`. NULL counts as no option given. */
MsgOptions options_say(const LimpetOptions *options);
