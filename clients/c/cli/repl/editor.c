#include "clients/c/cli/repl/editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <wchar.h>
#include <wctype.h>

#include "clients/c/cli/repl/block.h"
#include "proto/base/buf.h"
#include "proto/limits.h"

/* ---- what is pasted ---- */

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

/* ---- history ----
 *
 * Blocks that were entered are, kept from one prompt to the next in a file of the user's alone:
 * limpet/repl_history under the XDG state directory. One block a line, a line end in it as \n and a backslash
 * as \\. */

/* Entries that are remembered. */
#define HISTORY_MAX 2000

/* The file is written anew when it has more lines than this. */
#define LINES_MAX (2 * HISTORY_MAX)

/* Makes the directory as well; -1 where there is no home. */
static int history_path(char ret[static PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = -1;

    if (state && *state == '/')
        n = snprintf(ret, PATH_MAX, "%s/limpet/repl_history", state);
    else if (home && *home == '/')
        n = snprintf(ret, PATH_MAX, "%s/.local/state/limpet/repl_history", home);
    if (n < 0 || n >= PATH_MAX)
        return -1;
    for (char *slash = ret + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(ret, 0700);
        *slash = '/';
    }
    return 0;
}

static int open_file(int flags)
{
    char path[PATH_MAX];

    if (history_path(path) < 0)
        return -1;
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void write_line(FILE *file, const char *block)
{
    for (; *block; block++)
        if (*block == '\n')
            fputs("\\n", file);
        else if (*block == '\\')
            fputs("\\\\", file);
        else
            fputc(*block, file);
    fputc('\n', file);
}

/* Undoes write_line() in place. */
static void read_line(char *line)
{
    char *to = line;

    for (; *line && *line != '\n'; line++) {
        bool escaped = *line == '\\' && (line[1] == 'n' || line[1] == '\\');

        line += escaped;
        *to++ = escaped && *line == 'n' ? '\n' : *line;
    }
    *to = 0;
}

/* A copy beside it takes the place of the file, with the blocks that are remembered. */
static void rewrite_file(History *list)
{
    char path[PATH_MAX], temporary[PATH_MAX + 8];
    HistEvent event;
    FILE *file;
    int fd;

    if (history_path(path) < 0)
        return;
    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        close_fd(&fd);
        return;
    }
    for (int r = history(list, &event, H_LAST); r >= 0; r = history(list, &event, H_PREV))
        write_line(file, event.str);
    if (fclose(file) != 0 || rename(temporary, path) < 0)
        unlink(temporary);
}

static size_t read_file(History *list, FILE *file)
{
    _cleanup_(freep) char *line = NULL;
    size_t size = 0, lines = 0;
    HistEvent event;

    while (getline(&line, &size, file) > 0) {
        read_line(line);
        if (*line)
            history(list, &event, H_ENTER, line);
        lines++;
    }
    return lines;
}

/* With what the file has; without a file where there can be none. NULL when memory is short. */
static History *history_open(void)
{
    History *list = history_init();
    HistEvent event;
    FILE *file;
    int fd;

    if (!list)
        return NULL;
    history(list, &event, H_SETSIZE, HISTORY_MAX);
    history(list, &event, H_SETUNIQUE, 1);
    fd = open_file(O_RDONLY);
    file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file) {
        close_fd(&fd);
        return list;
    }
    if (read_file(list, file) > LINES_MAX)
        rewrite_file(list);
    fclose(file);
    return list;
}

/* Remembers a block, here and at the end of the file, which other prompts add to as well; not the same twice
 * in a row. */
static void history_add(History *list, const char *block)
{
    HistEvent event;
    FILE *file;
    int fd;

    if (history(list, &event, H_FIRST) >= 0 && strcmp(event.str, block) == 0)
        return;
    history(list, &event, H_ENTER, block);
    fd = open_file(O_WRONLY | O_CREAT | O_APPEND);
    file = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (!file) {
        close_fd(&fd);
        return;
    }
    write_line(file, block);
    fclose(file);
}

/* ---- keys ---- */

/* The editor's client data. */
typedef struct Keys {
    WordsFinder *complete;
    void *context;
    bool cleared;         /* Ctrl-C ended the line */
    bool is_terminal;     /* standard input: */
    struct termios given; /* its mode when no line is edited */
} Keys;

#define INDENT 4

static Keys *keys_of(EditLine *line)
{
    Keys *keys;

    el_get(line, EL_CLIENTDATA, &keys);
    return keys;
}

/* Counts the characters before the cursor if they are the indentation of its line; -1 when there is more than
 * that. */
static int indentation(EditLine *line)
{
    const LineInfoW *info = el_wline(line);
    int n = 0;

    for (const wchar_t *c = info->cursor; c > info->buffer && c[-1] != L'\n'; c--, n++)
        if (c[-1] != L' ')
            return -1;
    return n;
}

/* Goes below the text, for what is printed next. */
static void leave_line(EditLine *line, const char *mark)
{
    const LineInfoW *info = el_wline(line);

    for (const wchar_t *c = info->cursor; c < info->lastchar; c++)
        if (*c == L'\n')
            fputc('\n', stdout);
    fprintf(stdout, "%s\n", mark);
}

static unsigned char on_clear(EditLine *line, int key)
{
    leave_line(line, "^C");
    keys_of(line)->cleared = true;
    return CC_EOF;
}

static unsigned char on_backspace(EditLine *line, int key)
{
    int n = indentation(line);
    const LineInfoW *info = el_wline(line);

    if (info->cursor == info->buffer)
        return CC_ERROR;
    el_deletestr(line, n > 0 ? (n - 1) % INDENT + 1 : 1);
    return CC_REFRESH;
}

static unsigned char indent(EditLine *line, int n)
{
    char spaces[] = "    ";

    spaces[INDENT - n % INDENT] = 0;
    return el_insertstr(line, spaces) < 0 ? CC_ERROR : CC_REFRESH;
}

static size_t terminal_width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Adds what all words have in common; where that is nothing, shows them. */
static unsigned char insert_words(EditLine *line, const Words *words)
{
    char *common = strndup(words->words[0], words_common(words));
    const char after[] = {words->after, 0};
    size_t size = common ? strlen(common) : 0;
    unsigned char r = CC_REFRESH;

    if (size > words->from)
        el_insertstr(line, common + words->from);
    if (words->n == 1 && words->after) {
        el_insertstr(line, after);
    } else if (words->n > 1 && size <= words->from) {
        leave_line(line, "");
        words_print(words, stdout, terminal_width());
        r = CC_REDISPLAY;
    }
    free(common);
    return r;
}

static unsigned char on_tab(EditLine *line, int key)
{
    const LineInfo *info;
    Keys *keys = keys_of(line);
    _cleanup_(words_deinit) Words words = WORDS_NULL;
    _cleanup_(freep) char *before = NULL;
    int n = indentation(line);

    if (n >= 0)
        return indent(line, n);
    info = el_line(line);
    before = strndup(info->buffer, (size_t)(info->cursor - info->buffer));
    if (before)
        keys->complete(keys->context, before, &words);
    words_sort(&words);
    return words.n > 0 ? insert_words(line, &words) : CC_REFRESH_BEEP;
}

/* Puts the text in at the cursor; Enter runs it. */
static unsigned char on_paste(EditLine *line, int key)
{
    _cleanup_(paste_deinit) Paste paste = PASTE_NULL;
    wchar_t c;

    while (!paste.ended && el_wgetc(line, &c) == 1)
        paste_add(&paste, c);
    paste_finish(&paste);
    if (paste.failed || (paste.size > 0 && el_winsertstr(line, paste.text) < 0))
        return CC_ERROR;
    return CC_REFRESH;
}

/* Ctrl-C clears the line, Tab completes or indents, Backspace removes an indentation, and what is pasted is
 * text and no keys. */
static void keys_bind(EditLine *line)
{
    el_set(line, EL_EDITOR, "emacs");
    /* The same with el_set() would leak its copies. */
    el_wset(line, EL_ADDFN, L"limpet-clear", L"Discard the line", on_clear);
    el_wset(line, EL_ADDFN, L"limpet-complete", L"Complete or indent", on_tab);
    el_wset(line, EL_ADDFN, L"limpet-backspace", L"Delete a character or an indentation", on_backspace);
    el_wset(line, EL_ADDFN, L"limpet-paste", L"Insert pasted text", on_paste);
    el_set(line, EL_BIND, "^C", "limpet-clear", NULL);
    el_set(line, EL_BIND, "^I", "limpet-complete", NULL);
    el_set(line, EL_BIND, "^?", "limpet-backspace", NULL);
    el_set(line, EL_BIND, "^H", "limpet-backspace", NULL);
    el_set(line, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(line, EL_BIND, "\033[200~", "limpet-paste", NULL);
}

static void mark_pasted(bool on)
{
    const char *terminal = getenv("TERM");

    if (!terminal || strcmp(terminal, "dumb") == 0)
        return;
    fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

/* Around the lines of a block; in between the terminal marks what is pasted. */
static void keys_take_terminal(Keys *keys)
{
    keys->is_terminal = tcgetattr(STDIN_FILENO, &keys->given) == 0;
    if (keys->is_terminal)
        mark_pasted(true);
}

/* Before each line: Ctrl-C becomes a key, and nothing is echoed. The line editor shows its prompt before it
 * takes the terminal, so that what is typed in between would be shown twice. */
static void keys_begin_line(const Keys *keys)
{
    struct termios mode = keys->given;

    if (!keys->is_terminal)
        return;
    mode.c_cc[VINTR] = mode.c_cc[VEOF] = _POSIX_VDISABLE;
    mode.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

static void keys_give_terminal(Keys *keys)
{
    if (!keys->is_terminal)
        return;
    mark_pasted(false);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &keys->given);
}

/* ---- the editor ---- */

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
