#include "clients/c/cli/repl/words.h"

#include <string.h>

#include "clients/c/cli/cli.h"

#define SHOWN_MAX 200

void words_add(Words *words, const char *word, const char *prefix)
{
    char **grown;

    if (strncmp(word, prefix, strlen(prefix)) != 0)
        return;
    grown = realloc(words->words, (words->n + 1) * sizeof(*grown));
    if (grown) {
        words->words = grown;
        grown[words->n] = strdup(word);
    }
    if (grown && grown[words->n])
        words->n++;
    else
        words->failed = true;
}

void words_deinit(Words *words)
{
    for (size_t i = 0; i < words->n; i++)
        free(words->words[i]);
    free(words->words);
    *words = WORDS_NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void words_sort(Words *words)
{
    size_t kept = 0;

    if (words->n == 0)
        return;
    qsort(words->words, words->n, sizeof(*words->words), compare);
    for (size_t i = 1; i < words->n; i++)
        if (strcmp(words->words[kept], words->words[i]) != 0)
            words->words[++kept] = words->words[i];
        else
            free(words->words[i]);
    words->n = kept + 1;
}

size_t words_common(const Words *words)
{
    size_t common = words->n ? strlen(words->words[0]) : 0;

    for (size_t i = 1; i < words->n; i++) {
        size_t same = 0;

        while (same < common && words->words[i][same] == words->words[0][same])
            same++;
        common = same;
    }
    while (common > 0 && words->n && (words->words[0][common] & 0xc0) == 0x80)
        common--;
    return common;
}

void words_print(const Words *words, FILE *file, size_t width)
{
    size_t shown = MIN(words->n, (size_t)SHOWN_MAX), longest = 1, columns, rows;

    for (size_t i = 0; i < shown; i++)
        longest = MAX(longest, strlen(words->words[i]));
    columns = MAX(width / (longest + 2), (size_t)1);
    rows = (shown + columns - 1) / columns;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = row; i < shown; i += rows) {
            cli_print_name(file, words->words[i]);
            if (i + rows < shown)
                fprintf(file, "%*s", (int)(longest + 2 - strlen(words->words[i])), "");
        }
        fputc('\n', file);
    }
    if (words->n > shown)
        fprintf(file, "and %zu more\n", words->n - shown);
}
