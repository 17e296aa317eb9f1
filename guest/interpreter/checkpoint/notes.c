#include "guest/interpreter/checkpoint/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/limits.h"

void notes_clear(Notes *notes)
{
    notes->n = 0;
}

/* A character that the cut went through would grow when it is replaced. */
static void cut_whole(char *text)
{
    size_t size = strlen(text);

    for (size_t i = 0; i < 4 && i < size; i++) {
        if (utf8_valid(text, size - i)) {
            text[size - i] = '\0';
            return;
        }
    }
}

void notes_add(Notes *notes, const char *format, ...)
{
    va_list args;

    if (notes->n++ >= LIMIT_NOT_RESTORED)
        return;

    char *text = notes->text[notes->n - 1];
    va_start(args, format);
    vsnprintf(text, LIMIT_NOTE + 1, format, args);
    va_end(args);
    cut_whole(text);
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

Value notes_say(const Notes *notes)
{
    return (Value){.write = write_notes, .source = notes};
}
