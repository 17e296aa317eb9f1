/* StateChange: the end of live state, and what the variables of a session or branch are since then. */
#pragma once

#include "proto/schema.h"

typedef enum State {
    STATE_KEPT,
    STATE_ROLLED_BACK,
    STATE_LOST,
} State;

/* A reason why variables are not what a reader would expect. Its text is our own, or checked. */
typedef char Reason[LIMIT_NOTE + 1];

/* Notes: short texts for a person about what a copy of memory does not bring back. They stay encoded, as they
 * are only passed on. */
typedef struct EncodedNotes {
    Buf encoded;
    size_t n;
} EncodedNotes;

#define NOTES_NULL ((EncodedNotes){0})

typedef struct StateChange {
    State state;
    uint64_t checkpoint;      /* STATE_ROLLED_BACK: the number of the checkpoint that it went back to */
    uint64_t execution_count; /* the last call whose effects are in RAM */
    uint64_t calls;           /* calls that have no effect any more, the one that ended it left out */
    Reason reason;            /* why no later state had a checkpoint; empty: calls came too fast */
    EncodedNotes not_restored;
    Value
        memory; /* STATE_ROLLED_BACK: what holds most of it; absent: it was not asked for, or nobody waits */
} StateChange;

#define STATE_UNCHANGED ((StateChange){0})

void state_change_deinit(StateChange *change);

/* `to` gets what was in `from`, which is STATE_UNCHANGED afterwards. */
void state_change_move(StateChange *to, StateChange *from);

/* The reason where there is no other. */
extern const char state_change_no_checkpoint[];

/* Appends "; its variables are …" to a sentence. */
void state_change_describe(const StateChange *change, char *sentence, size_t size);

/* Makes valid text of what a broken interpreter wrote, which may be cut or no text at all. */
void words_make_text(char *words);

/* Writes a reason. What does not fit is cut at a character. */
void reason_set(Reason reason, const char *format, ...) _printf_(2, 3);

/* Protection: the checkpoint that a call would have gone back to. */
typedef struct Protection {
    bool exists;
    uint64_t execution_count; /* the last call whose effects are in it */
    Reason reason;            /* why there is no checkpoint */
} Protection;

void notes_deinit(EncodedNotes *notes);

/* Adds a note of at most LIMIT_NOTE bytes, valid UTF-8. A note over LIMIT_NOT_RESTORED, or without memory for
 * it, is left out. */
void notes_add(EncodedNotes *notes, Text text);

/* Adds the texts of an array that was received. */
void notes_add_all(EncodedNotes *notes, const Value *texts);

/* The texts of an array that was received take the place of all notes. */
void notes_take(EncodedNotes *notes, const Value *texts);

/* The notes as an array of text. */
Value notes_say(const EncodedNotes *notes);
