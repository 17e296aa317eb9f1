/* The global generators of random numbers across a fork, where Python seeds that of `random` anew. */
#pragma once

#include "guest/interpreter/pyref.h"

typedef struct Generators {
    PyObject *type, *generator, *state, *gauss_next; /* of `random`; NULL where it is not imported */
} Generators;

/* In a fork, before Python learns of it. */
void generators_keep(Generators *ret);

/* After it has: they go on where they were, or are seeded anew, those of NumPy too. */
void generators_restore(const Generators *generators);
void generators_seed(const Generators *generators);

void generators_deinit(Generators *generators);
