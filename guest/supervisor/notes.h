/* Short texts for a person: what a copy of memory does not bring back. Kept encoded, as they are only passed
 * on.
 */
#pragma once

#include "proto/schema.h"

typedef struct Notes {
    Buf encoded;
    size_t n;
} Notes;

#define NOTES_NULL ((Notes){0})

void notes_deinit(Notes *notes);

/* One more of at most LIMIT_NOTE bytes, valid UTF-8. What is over LIMIT_NOT_RESTORED, or finds no memory, is
 * left out. */
void notes_add(Notes *notes, Text text);

/* Adds the texts of an array that was received. */
void notes_add_all(Notes *notes, const Value *texts);

/* As an array of text. */
Value notes_say(const Notes *notes);
