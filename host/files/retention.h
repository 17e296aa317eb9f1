/* Retention: which leftovers go. */
#pragma once

#include "host/files/leftovers.h"

typedef struct Retention {
    double keep_for;    /* seconds after the end of the session; 0: for ever */
    uint64_t keep_size; /* bytes of all together; 0: any number */
} Retention;

/* Puts those that are to go first, the oldest first; returns how many. */
size_t retention_choose(Leftovers *leftovers, const Retention *retention, double now);
