/* Facts that are told of an object besides its type and its text. */
#pragma once

#include "guest/interpreter/namespace/label.h"

#define FACTS_DIMENSIONS 64

typedef struct Facts {
    int ndim; /* -1: no shape */
    Py_ssize_t shape[FACTS_DIMENSIONS];
    Py_ssize_t bytes; /* of its data, those of objects it only refers to not counted; -1: not known */
    Label dtype;      /* empty: none */
} Facts;

static inline void facts_init(Facts *facts)
{
    facts->ndim = -1;
    facts->bytes = -1;
    label_init(&facts->dtype);
}
