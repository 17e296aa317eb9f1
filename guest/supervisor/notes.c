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

int notes_decode(Notes *notes, const msgpack_object_array *list, Problem *problem)
{
    if (list->size > LIMIT_NOT_RESTORED)
        return problem_set(problem, ERR_TOO_LARGE, "more than %u notes", LIMIT_NOT_RESTORED);
    for (uint32_t i = 0; i < list->size; i++) {
        const msgpack_object *item = &list->ptr[i];

        if (item->type != MSGPACK_OBJECT_STR || item->via.str.size > LIMIT_NOTE)
            return problem_set(problem, ERR_BAD_REQUEST, "a note that is not a text of at most %u bytes",
                               LIMIT_NOTE);
        notes_add(notes, (Text){item->via.str.ptr, item->via.str.size});
    }
    return 0;
}

void notes_write(const Notes *notes, Writer *w)
{
    write_array(w, notes->n);
    int r = notes->n > 0 ? buf_append(w->buf, buf_head(&notes->encoded), notes->encoded.size) : 0;

    if (r < 0 && w->error == 0)
        w->error = r;
}
