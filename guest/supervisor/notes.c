#include "guest/supervisor/notes.h"

void notes_deinit(Notes *notes)
{
    buf_deinit(&notes->encoded);
    *notes = NOTES_NULL;
}

void notes_add(Notes *notes, Text text)
{
    Writer w;

    if (notes->n >= LIMIT_NOT_RESTORED)
        return;
    writer_init(&w, &notes->encoded);
    write_text_n(&w, text.data, text.size);
    if (writer_finish(&w) == 0)
        notes->n++;
}

void notes_add_all(Notes *notes, const Value *texts)
{
    for (uint32_t i = 0; i < value_count(texts); i++)
        notes_add(notes, value_text(texts, i));
}

static void write_notes(Writer *w, const void *source)
{
    const Notes *notes = source;

    write_array(w, notes->n);
    if (notes->n > 0)
        write_encoded(w, &notes->encoded);
}

Value notes_say(const Notes *notes)
{
    return (Value){.write = write_notes, .source = notes};
}
