/* Sentences for the caller, gathered one after the other. */
#pragma once

#include "proto/base/base.h"

typedef struct NoteList {
    const char **texts;
    size_t n, capacity;
} NoteList;

#define NOTE_LIST_NULL ((NoteList){0})

/* 0 or -ENOMEM. */
int note_list_add(NoteList *notes, const char *format, ...) _printf_(2, 3);
void note_list_deinit(NoteList *notes);
