/* Paste: what a terminal sends between its marks of a bracketed paste. */
#pragma once

#include <wchar.h>

#include "proto/base/base.h"

typedef struct Paste {
    wchar_t *text; /* terminated after paste_finish() */
    size_t size, capacity;
    bool ended;  /* the closing mark has come */
    bool failed; /* too long, or memory is short: there is no text */
} Paste;

#define PASTE_NULL ((Paste){0})

/* Adds a character as it comes, those of the closing mark included. */
void paste_add(Paste *paste, wchar_t c);

/* Makes it text for the line: every line end is \n, none is at the end, and there are no other control
 * characters but tabs. */
void paste_finish(Paste *paste);
void paste_deinit(Paste *paste);
