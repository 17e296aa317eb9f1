/* Shared by the files of SessionFiles, and included by nobody else. */
#pragma once

#include "host/keeper/client/session_files.h"

/* publications.c */
/* Forgets the files in publications that have no answer yet, whose askers are told all the same, and what was
 * noted. */
void publications_forget(SessionFiles *files);
