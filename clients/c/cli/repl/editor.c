#include "clients/c/cli/repl/editor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "clients/c/cli/repl/block.h"
#include "clients/c/cli/repl/history.h"
#include "clients/c/cli/repl/keys.h"

struct Editor {
    EditLine *line;
    History *history;
    Keys keys;
    char prompt[192];
};

static char *get_prompt(EditLine *line)
{
    Keys *keys;

    el_get(line, EL_CLIENTDATA, &keys);
    return container_of(keys, Editor, keys)->prompt;
}

Editor *editor_new(WordsFinder *complete, void *context)
{
    Editor *editor = calloc(1, sizeof(*editor));

    if (!editor)
        return NULL;
    editor->keys = (Keys){.complete = complete, .context = context};
    editor->line = el_init("limpet", stdin, stdout, stderr);
    editor->history = history_open();
    if (!editor->line || !editor->history) {
        editor_free(editor);
        return NULL;
    }
    el_set(editor->line, EL_CLIENTDATA, &editor->keys);
    el_set(editor->line, EL_PROMPT, get_prompt);
    el_set(editor->line, EL_SIGNAL, 1);
    el_set(editor->line, EL_HIST, history, editor->history);
    keys_bind(editor->line);
    el_source(editor->line, NULL);
    return editor;
}

void editor_free(Editor *editor)
{
    if (!editor)
        return;
    if (editor->line)
        el_end(editor->line);
    if (editor->history)
        history_end(editor->history);
    free(editor);
}

/* Returns whether input waits: text that was pasted without brackets, or typed ahead, brings its own
 * indentation. */
static bool input_waits(void)
{
    struct pollfd polled = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&polled, 1, 0) > 0;
}

static void indent_next(Editor *editor, const Buf *block)
{
    char spaces[64];
    size_t n = MIN(block_indent((const char *)buf_head(block), block->size), sizeof(spaces) - 1);

    if (n == 0 || input_waits())
        return;
    memset(spaces, ' ', n);
    spaces[n] = 0;
    el_push(editor->line, spaces);
}

/* "... ", as wide as the first prompt was. */
static void continue_prompt(Editor *editor)
{
    size_t width = 0;

    for (const char *c = editor->prompt; *c; c++)
        width += (*c & 0xc0) != 0x80;
    snprintf(editor->prompt, sizeof(editor->prompt), "%*s ", (int)MAX(width, (size_t)4) - 1, "...");
}

static EditorEnd read_lines(Editor *editor, Buf *block)
{
    for (bool first = true;; first = false) {
        int n = 0;
        const char *text;

        editor->keys.cleared = false;
        keys_begin_line(&editor->keys);
        text = el_gets(editor->line, &n);
        if (editor->keys.cleared)
            return EDITOR_CLEARED;
        if (!text || n <= 0 || buf_append(block, text, strlen(text)) < 0)
            return EDITOR_END;
        /* A command of ours is one line. */
        if (buf_head(block)[0] == ':' || block_complete((const char *)buf_head(block), block->size))
            return EDITOR_BLOCK;
        if (first)
            continue_prompt(editor);
        indent_next(editor, block);
    }
}

static void strip_end(Buf *block)
{
    while (block->size > 0 && strchr(" \t\n", buf_head(block)[block->size - 1]))
        block->size--;
}

EditorEnd editor_read(Editor *editor, const char *prompt, Buf *ret)
{
    EditorEnd end;

    buf_clear(ret);
    snprintf(editor->prompt, sizeof(editor->prompt), "%s", prompt);
    keys_take_terminal(&editor->keys);
    end = read_lines(editor, ret);
    keys_give_terminal(&editor->keys);
    if (end != EDITOR_BLOCK)
        return end;
    strip_end(ret);
    if (buf_append(ret, "", 1) < 0)
        return EDITOR_END;
    ret->size--;
    if (ret->size > 0)
        history_add(editor->history, (const char *)buf_head(ret));
    return EDITOR_BLOCK;
}
