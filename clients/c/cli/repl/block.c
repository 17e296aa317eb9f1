#include "clients/c/cli/repl/block.h"

#include <ctype.h>
#include <string.h>

#include "proto/base/base.h"

#define INDENT 4

/* State of the text at its end. A logical line is one that no bracket, string or backslash carries on. */
typedef struct Scan {
    const char *text;
    size_t size, at;
    size_t depth;         /* open brackets */
    bool open;            /* a string of several lines, or a backslash, goes on */
    bool broken;          /* a bracket too many closed, or a string of one line not closed */
    bool blank;           /* the last line, which has its end or not, is blank */
    bool any;             /* there is a logical line; the last one: */
    size_t begin, indent; /* where its first word is, and in which column */
    char last;            /* its last character that is no blank or comment */
} Scan;

static bool starts_with(const Scan *scan, const char *word)
{
    size_t n = strlen(word);

    return scan->size - scan->at >= n && memcmp(scan->text + scan->at, word, n) == 0;
}

/* From the opening quote to behind the closing one. */
static void scan_string(Scan *scan)
{
    char quote = scan->text[scan->at];
    const char three[] = {quote, quote, quote, 0};
    bool triple = starts_with(scan, three);
    bool carried = false; /* the last thing is an escaped line end */
    size_t n = triple ? 3 : 1;

    for (scan->at += n; scan->at < scan->size; scan->at++) {
        char c = scan->text[scan->at];

        if (c == '\\') {
            scan->at++;
            carried = scan->at + 1 >= scan->size;
        } else if (c == '\n' && !triple) {
            scan->broken = true;
            return;
        } else if (c == quote && (!triple || starts_with(scan, three))) {
            scan->at += n;
            return;
        }
    }
    scan->at = scan->size;
    scan->open = triple || carried;
    scan->broken = !scan->open;
}

static void scan_comment(Scan *scan)
{
    const char *end = memchr(scan->text + scan->at, '\n', scan->size - scan->at);

    scan->at = end ? (size_t)(end - scan->text) : scan->size;
}

/* Scans one character outside of strings and comments. */
static void scan_character(Scan *scan)
{
    char c = scan->text[scan->at++];

    if (c == '(' || c == '[' || c == '{')
        scan->depth++;
    else if ((c == ')' || c == ']' || c == '}') && scan->depth > 0)
        scan->depth--;
    else if (c == ')' || c == ']' || c == '}')
        scan->broken = true;
    else if (c == '\\' && (scan->at == scan->size || scan->text[scan->at] == '\n')) {
        scan->at += scan->at < scan->size;
        scan->open = scan->at == scan->size;
    }
    scan->last = c;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\r';
}

static size_t skip_blanks(Scan *scan)
{
    size_t column = 0;

    for (; scan->at < scan->size && is_blank(scan->text[scan->at]); scan->at++)
        column = scan->text[scan->at] == '\t' ? (column / 8 + 1) * 8 : column + 1;
    return column;
}

/* Scans one logical line with its end; blank ones and comments are none. */
static void scan_line(Scan *scan)
{
    size_t column = skip_blanks(scan);

    scan->blank = scan->at == scan->size || scan->text[scan->at] == '\n';
    if (!scan->blank && scan->text[scan->at] != '#') {
        scan->any = true;
        scan->begin = scan->at;
        scan->indent = column;
        scan->last = 0;
    }
    while (scan->at < scan->size && !(scan->text[scan->at] == '\n' && scan->depth == 0)) {
        char c = scan->text[scan->at];

        if (c == '#') {
            scan_comment(scan);
        } else if (c == '"' || c == '\'') {
            scan->last = c;
            scan_string(scan);
        } else if (isspace((unsigned char)c)) {
            scan->at++;
        } else {
            scan_character(scan);
        }
        if (scan->broken)
            return;
    }
    scan->at += scan->at < scan->size;
}

static Scan scan_text(const char *text, size_t size)
{
    Scan scan = {.text = text, .size = size, .blank = true};

    while (scan.at < size && !scan.broken)
        scan_line(&scan);
    return scan;
}

static bool begins_compound(const Scan *scan)
{
    static const char *const words[] = {"if",    "for",   "while", "try",  "with",   "def",
                                        "class", "async", "else",  "elif", "except", "finally"};
    const char *word = scan->text + scan->begin;
    size_t n = 0;

    while (scan->begin + n < scan->size && (isalnum((unsigned char)word[n]) || word[n] == '_'))
        n++;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strlen(words[i]) == n && memcmp(words[i], word, n) == 0)
            return true;
    return *word == '@' || scan->last == ':';
}

bool block_complete(const char *text, size_t size)
{
    Scan scan = scan_text(text, size);

    if (scan.broken)
        return true;
    if (scan.depth > 0 || scan.open)
        return false;
    return !scan.any || scan.blank || (scan.indent == 0 && !begins_compound(&scan));
}

bool block_empty(const char *text, size_t size)
{
    Scan scan = scan_text(text, size);

    return !scan.any && !scan.broken;
}

static bool ends_suite(const Scan *scan)
{
    static const char *const words[] = {"return", "pass", "break", "continue", "raise"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);
        const char *word = scan->text + scan->begin;

        if (scan->size - scan->begin >= n && memcmp(word, words[i], n) == 0 &&
            (scan->begin + n == scan->size || !(isalnum((unsigned char)word[n]) || word[n] == '_')))
            return true;
    }
    return false;
}

size_t block_indent(const char *text, size_t size)
{
    Scan scan = scan_text(text, size);

    if (!scan.any || scan.depth > 0 || scan.open)
        return 0;
    if (scan.last == ':')
        return scan.indent + INDENT;
    return ends_suite(&scan) && scan.indent >= INDENT ? scan.indent - INDENT : scan.indent;
}
