/* LimpetOptions on the wire: as fields of `open`, and as the map `options` of `run`. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/schema.h"

/* Whether the options can be put on the wire at all; their values are for the controller to judge. */
int options_check(const LimpetOptions *options, Problem *problem);

/* What was given, pointing into `options`. NULL counts as no option given. */
MsgOptions options_say(const LimpetOptions *options);
