/* What the files of SessionFiles share. Nobody else includes this. */
#pragma once

#include "host/keeper/client/session_files.h"

/* publications.c */
/* What has no answer is told to whoever asked, but not to these files; what was noted is forgotten. */
void publications_forget(SessionFiles *files);
