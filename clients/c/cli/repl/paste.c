#include "clients/c/cli/repl/paste.h"

#include "proto/limits.h"

static const wchar_t closing[] = L"\033[201~";

#define CLOSING_SIZE (ARRAY_SIZE(closing) - 1)

void paste_add(Paste *paste, wchar_t c)
{
    if (paste->size + 1 >= paste->capacity) {
        size_t capacity = MAX(paste->capacity * 2, (size_t)1024);
        wchar_t *grown = capacity > 2 * LIMIT_CODE ? NULL : realloc(paste->text, capacity * sizeof(*grown));

        if (!grown && !paste->text)
            return;
        /* Text too long for code is dropped whole; the closing mark is still looked for. */
        paste->failed |= !grown;
        paste->size = grown ? paste->size : 0;
        paste->text = grown ? grown : paste->text;
        paste->capacity = grown ? capacity : paste->capacity;
    }
    paste->text[paste->size++] = c;
    if (paste->size >= CLOSING_SIZE &&
        wmemcmp(paste->text + paste->size - CLOSING_SIZE, closing, CLOSING_SIZE) == 0) {
        paste->size -= CLOSING_SIZE;
        paste->ended = true;
    }
}

void paste_finish(Paste *paste)
{
    size_t kept = 0;

    if (paste->failed)
        paste->size = 0;
    for (size_t i = 0; i < paste->size; i++) {
        wchar_t c = paste->text[i];

        if (c == L'\r' && i + 1 < paste->size && paste->text[i + 1] == L'\n')
            continue;
        if (c == L'\r')
            c = L'\n';
        if (c == L'\n' || c == L'\t' || (c >= 0x20 && !(c >= 0x7f && c < 0xa0)))
            paste->text[kept++] = c;
    }
    while (kept > 0 && (paste->text[kept - 1] == L'\n' || paste->text[kept - 1] == L' '))
        kept--;
    paste->size = kept;
    if (paste->text)
        paste->text[kept] = 0;
}

void paste_deinit(Paste *paste)
{
    free(paste->text);
    *paste = PASTE_NULL;
}
