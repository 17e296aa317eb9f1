/* Words: what may stand at the cursor. */
#pragma once

#include <stdio.h>

#include "proto/base/base.h"

typedef struct Words {
    char **words;
    size_t n;
    bool failed; /* memory was short: some are missing */
    size_t from; /* bytes before the cursor that the words replace */
    char after;  /* behind a word that is the only one: 0, ' ' or '/' */
} Words;

#define WORDS_NULL ((Words){0})

/* Finds what may stand behind `before`, the text of the line before the cursor. */
typedef void WordsFinder(void *context, const char *before, Words *ret);

/* Adds a copy of a word that begins with the prefix; of others it takes no notice. */
void words_add(Words *words, const char *word, const char *prefix);
void words_deinit(Words *words);

/* In order, each once. */
void words_sort(Words *words);

/* Returns the number of bytes that all words have in common at the beginning, without a part of a UTF-8
 * character. */
size_t words_common(const Words *words);

/* In columns. */
void words_print(const Words *words, FILE *file, size_t width);
