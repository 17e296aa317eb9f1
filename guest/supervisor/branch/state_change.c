#include "guest/supervisor/branch/state_change.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/command_line.h"

const char state_change_no_checkpoint[] = "no checkpoint had been taken yet";

void state_change_deinit(StateChange *change)
{
    notes_deinit(&change->not_restored);
    *change = STATE_UNCHANGED;
}

void state_change_move(StateChange *to, StateChange *from)
{
    notes_deinit(&to->not_restored);
    *to = *from;
    *from = STATE_UNCHANGED;
}

void words_make_text(char *words)
{
    if (utf8_valid(words, strlen(words)))
        return;
    for (; *words; words++)
        if (*words & 0x80)
            *words = '?';
}

void reason_set(Reason reason, const char *format, ...)
{
    va_list arguments;
    size_t size;

    va_start(arguments, format);
    vsnprintf(reason, sizeof(Reason), format, arguments);
    va_end(arguments);
    for (size = strlen(reason); size > 0 && !utf8_valid(reason, size); size--)
        ;
    reason[size] = '\0';
}

typedef struct Sentence {
    char *text;
    size_t size, used;
} Sentence;

static void append(Sentence *sentence, const char *format, ...) _printf_(2, 3);

static void append(Sentence *sentence, const char *format, ...)
{
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(sentence->text + sentence->used, sentence->size - sentence->used, format, arguments);
    va_end(arguments);
    sentence->used = MIN(sentence->used + (size_t)MAX(n, 0), sentence->size - 1);
}

static void append_rolled_back(Sentence *sentence, const StateChange *change)
{
    if (change->execution_count > 0)
        append(sentence, "; its variables are as they were after call %" PRIu64, change->execution_count);
    else
        append(sentence, "; its variables are as they were before the first call");
    if (change->calls == 0) {
        if (change->execution_count > 0)
            append(sentence, " (the call before this one)");
        return;
    }
    if (change->reason[0])
        append(sentence, ": later changes are lost, because %s", change->reason);
    else if (change->calls == 1)
        append(sentence, ": the next call followed too soon for a checkpoint");
    else
        append(sentence, ": the %" PRIu64 " calls after it followed each other too closely for a checkpoint",
               change->calls);
}

void state_change_describe(const StateChange *change, char *sentence_text, size_t size)
{
    Sentence sentence = {sentence_text, size, strlen(sentence_text)};

    switch (change->state) {
    case STATE_KEPT:
        append(&sentence, "; its variables are kept");
        return;
    case STATE_ROLLED_BACK:
        append_rolled_back(&sentence, change);
        return;
    case STATE_LOST:
        append(&sentence, "; its variables are lost, files in " SESSION_PATH " are kept (%s)",
               change->reason[0] ? change->reason : state_change_no_checkpoint);
        return;
    }
}

/* ---- notes ---- */

void notes_deinit(EncodedNotes *notes)
{
    buf_deinit(&notes->encoded);
    *notes = NOTES_NULL;
}

static void encode_note(EncodedNotes *notes, Text text)
{
    Writer w;

    writer_init(&w, &notes->encoded);
    write_text_n(&w, text.data, text.size);
    if (writer_finish(&w) == 0)
        notes->n++;
}

void notes_add(EncodedNotes *notes, Text text)
{
    if (notes->n < LIMIT_NOT_RESTORED)
        encode_note(notes, text);
}

void notes_take(EncodedNotes *notes, const Value *texts)
{
    notes_deinit(notes);
    for (uint32_t i = 0; i < value_count(texts); i++)
        encode_note(notes, value_text(texts, i));
}

void notes_add_all(EncodedNotes *notes, const Value *texts)
{
    for (uint32_t i = 0; i < value_count(texts); i++)
        notes_add(notes, value_text(texts, i));
}

static void write_notes(Writer *w, const void *source)
{
    const EncodedNotes *notes = source;

    write_array(w, notes->n);
    if (notes->n > 0)
        write_encoded(w, &notes->encoded);
}

Value notes_say(const EncodedNotes *notes)
{
    return (Value){.write = write_notes, .source = notes};
}
