/* Program to be run, as the controller is told. */
#pragma once

#include "clients/c/limpet.h"
#include "proto/schema.h"

/* Fills in the program; it points to what `program` does. 0, or -EPROTO with the problem. */
int program_say(MsgProgram *ret, const LimpetProgram *program, Problem *problem);
