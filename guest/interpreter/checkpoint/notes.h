/* `not_restored`: what a copy of memory does not bring back, in words for a person who knows Python. */
#pragma once

#include "proto/base/base.h"
#include "proto/schema.h"

typedef struct Notes {
    char text[LIMIT_NOT_RESTORED][LIMIT_NOTE + 1];
    size_t n; /* also counts those there was no room for */
} Notes;

void notes_clear(Notes *notes);

/* ASCII. Text over LIMIT_NOTE bytes is cut, texts over LIMIT_NOT_RESTORED are only counted. */
void notes_add(Notes *notes, const char *format, ...) _printf_(2, 3);

/* An array of text. The last one tells how many there was no room for. */
Value notes_encode(const Notes *notes);
