#include "clients/c/saving/note_list.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static int make_room(NoteList *notes)
{
    size_t capacity = MAX(2 * notes->capacity, (size_t)16);
    const char **space;

    if (notes->n < notes->capacity)
        return 0;
    space = realloc(notes->texts, capacity * sizeof(*space));
    if (!space)
        return -ENOMEM;
    notes->texts = space;
    notes->capacity = capacity;
    return 0;
}

int note_list_add(NoteList *notes, const char *format, ...)
{
    char *text = NULL;
    va_list values;
    int n;

    if (make_room(notes) < 0)
        return -ENOMEM;
    va_start(values, format);
    n = vasprintf(&text, format, values);
    va_end(values);
    if (n < 0)
        return -ENOMEM;
    notes->texts[notes->n++] = text;
    return 0;
}

void note_list_deinit(NoteList *notes)
{
    for (size_t i = 0; i < notes->n; i++)
        free((char *)notes->texts[i]);
    free(notes->texts);
    *notes = NOTE_LIST_NULL;
}
