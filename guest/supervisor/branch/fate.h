/* What became of the variables of a session or branch. */
#pragma once

#include "proto/schema.h"

typedef enum State {
    STATE_KEPT,
    STATE_ROLLED_BACK,
    STATE_LOST,
} State;

/* Why they are not what a reader would expect. Texts of our own, or checked. */
typedef char Reason[LIMIT_NOTE + 1];

/* Short texts for a person: what a copy of memory does not bring back. They stay encoded, as they are only
 * passed on.
 */
typedef struct Notes {
    Buf encoded;
    size_t n;
} Notes;

#define NOTES_NULL ((Notes){0})

typedef struct Fate {
    State state;
    uint64_t checkpoint;      /* rolled back: the number of the one it went back to, */
    uint64_t execution_count; /* the last call whose effects are in RAM, */
    uint64_t calls;           /* and how many calls before the one that ended it have no effect any more */
    Reason reason;            /* why there was no checkpoint of a later state; empty: calls came too fast */
    Notes not_restored;
} Fate;

#define FATE_KEPT ((Fate){0})

void fate_deinit(Fate *fate);

/* `to` gets what was in `from`, which is FATE_KEPT afterwards. */
void fate_move(Fate *to, Fate *from);

/* Where there is no other reason. */
extern const char fate_no_checkpoint[];

/* Appends "; its variables are …" to a sentence. */
void fate_describe(const Fate *fate, char *sentence, size_t size);

/* Makes text of the words of a broken interpreter, which may be cut or not text at all. */
void words_make_text(char *words);

/* Cuts what does not fit, at a character. */
void reason_set(Reason reason, const char *format, ...) _printf_(2, 3);

/* What a call ran under: where it would have gone back to. */
typedef struct Protection {
    bool exists;
    uint64_t execution_count; /* of the checkpoint */
    Reason reason;            /* why there is none */
} Protection;

void notes_deinit(Notes *notes);

/* One more of at most LIMIT_NOTE bytes, valid UTF-8. What is over LIMIT_NOT_RESTORED, or finds no memory, is
 * left out. */
void notes_add(Notes *notes, Text text);

/* Adds the texts of an array that was received. */
void notes_add_all(Notes *notes, const Value *texts);

/* As an array of text. */
Value notes_say(const Notes *notes);
