/* Orphans: what commands and processes left behind when they ended, and nobody waits for. */
#pragma once

#include "guest/supervisor/command/commands.h"

typedef struct Orphans {
    pid_t pids[LIMIT_ORPHANS];
    size_t n;
} Orphans;

/* Reads the orphans there are now. 0 or a negative errno. */
int orphans_read(Orphans *ret, const Commands *all);

/* The one of that number; 0 where it is none. */
pid_t orphans_find(const Commands *all, Text number);
