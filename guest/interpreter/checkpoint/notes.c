#include "guest/interpreter/checkpoint/notes.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/limits.h"

void notes_clear(Notes *notes)
{
    notes->n = 0;
}

void notes_add(Notes *notes, const char *format, ...)
{
    va_list args;

    if (notes->n++ >= LIMIT_NOT_RESTORED)
        return;

    va_start(args, format);
    vsnprintf(notes->text[notes->n - 1], LIMIT_NOTE + 1, format, args);
    va_end(args);
}

static void write_notes(Writer *w, const void *source)
{
    const Notes *notes = source;
    size_t whole = notes->n > LIMIT_NOT_RESTORED ? LIMIT_NOT_RESTORED - 1 : notes->n;
    char rest[64];

    write_array(w, MIN(notes->n, LIMIT_NOT_RESTORED));
    for (size_t i = 0; i < whole; i++)
        write_text(w, notes->text[i]);
    if (whole == notes->n)
        return;
    snprintf(rest, sizeof(rest), "and %zu more", notes->n - whole);
    write_text(w, rest);
}

Value notes_encode(const Notes *notes)
{
    return (Value){.write = write_notes, .source = notes};
}
