/* Editor: the line editor (libedit), and from it whole blocks. The terminal is Python's while code runs: it
 * is taken over for a line and given back. */
#pragma once

#include <wchar.h>

#include "clients/c/cli/repl/words.h"
#include "proto/base/base.h"
#include "proto/base/buf.h"

typedef struct Editor Editor;

typedef enum EditorEnd {
    EDITOR_BLOCK,
    EDITOR_CLEARED, /* Ctrl-C */
    EDITOR_END,     /* Ctrl-D, or the terminal is gone */
} EditorEnd;

/* For standard input and output. NULL when memory is short. */
Editor *editor_new(WordsFinder *complete, void *context);
void editor_free(Editor *editor);

/* Reads a block, terminated; `prompt` stands before its first line. */
EditorEnd editor_read(Editor *editor, const char *prompt, Buf *ret);

/* ---- paste: what a terminal sends between its marks of a bracketed paste ---- */

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
