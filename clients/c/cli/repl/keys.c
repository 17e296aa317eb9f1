#include "clients/c/cli/repl/keys.h"

#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>
#include <wctype.h>

#include "clients/c/cli/repl/paste.h"

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

void keys_bind(EditLine *line)
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

void keys_take_terminal(Keys *keys)
{
    keys->is_terminal = tcgetattr(STDIN_FILENO, &keys->given) == 0;
    if (keys->is_terminal)
        mark_pasted(true);
}

void keys_begin_line(const Keys *keys)
{
    struct termios mode = keys->given;

    if (!keys->is_terminal)
        return;
    mode.c_cc[VINTR] = mode.c_cc[VEOF] = _POSIX_VDISABLE;
    mode.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

void keys_give_terminal(Keys *keys)
{
    if (!keys->is_terminal)
        return;
    mark_pasted(false);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &keys->given);
}
