/* LimpetOptions on the wire: as fields of `open`, and as the map `options` of `run`. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/wire.h"

#define OPTIONS_FIELDS 12

/* Whether the options can be put on the wire at all; their values are for the controller to judge. */
int options_check(const LimpetOptions *options, Problem *problem);

/* Writes OPTIONS_FIELDS pairs, nil where an option is not given. NULL counts as no option given. */
void options_write(Writer *w, const LimpetOptions *options);
