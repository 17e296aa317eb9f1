/* Short texts for a person: what a copy of memory does not bring back. Kept encoded, as they are only passed
 * on.
 */
#pragma once

#include "proto/wire.h"

typedef struct Notes {
    Buf encoded;
    size_t n;
} Notes;

#define NOTES_NULL ((Notes){0})

void notes_deinit(Notes *notes);

/* One more of at most LIMIT_NOTE bytes, valid UTF-8. What is over LIMIT_NOT_RESTORED, or finds no memory, is
 * left out. */
void notes_add(Notes *notes, Text text);

/* Adds an array of texts that someone else wrote. 0, or -EPROTO with a Problem. */
int notes_decode(Notes *notes, const msgpack_object_array *list, Problem *problem);

/* As an array of text. */
void notes_write(const Notes *notes, Writer *w);
