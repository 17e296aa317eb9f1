#include "guest/interpreter/split.h"

#include <string.h>

/* Fields of f-strings within fields of f-strings: deeper is left to the parser. */
#define NESTING_MAX 8u

typedef struct Lexer {
    const char *begin, *at, *end;
    bool nested_quotes;
    unsigned nesting; /* of f-string fields */
} Lexer;

/* The statement that began last at column 0, outside brackets and strings. */
typedef struct Statement {
    const char *begin; /* NULL: none yet */
    bool first;        /* its first token is still to come */
    bool keyword;      /* begins with a word that only begins statements */
    bool assignment;
    bool lambda;    /* its defaults look like assignments */
    bool semicolon; /* contains one */
    bool trailing;  /* its last token is one */
} Statement;

typedef struct Word {
    const char *text;
    size_t size;
} Word;

static const char *const statement_words[] = {
    "assert",   "async",  "break",   "class",  "continue", "def",    "del",  "elif",
    "else",     "except", "finally", "for",    "from",     "global", "if",   "import",
    "nonlocal", "pass",   "raise",   "return", "try",      "while",  "with",
};

static bool skip_string(Lexer *l, bool raw, bool format);

static char peek(const Lexer *l, size_t ahead)
{
    return (size_t)(l->end - l->at) > ahead ? l->at[ahead] : '\0';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static bool word_is(Word word, const char *text)
{
    return word.size == strlen(text) && memcmp(word.text, text, word.size) == 0;
}

static bool begins_statement(Word word)
{
    for (size_t i = 0; i < ARRAY_SIZE(statement_words); i++) {
        if (word_is(word, statement_words[i]))
            return true;
    }
    return false;
}

static void skip_comment(Lexer *l)
{
    const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));

    l->at = newline ? newline : l->end;
}

/* The text of a field after its colon, up to and over the closing brace. */
static bool skip_format_spec(Lexer *l, char quote, bool triple);

/* A replacement field, from behind its opening brace. */
static bool skip_field(Lexer *l, char quote, bool triple);

/* A name, keyword or number; a string when that is what its letters are the prefix of. */
static bool skip_word(Lexer *l, Word *ret)
{
    bool prefix = true, raw = false, format = false;
    const char *begin = l->at;

    for (; l->at < l->end && is_word(*l->at); l->at++) {
        raw = raw || *l->at == 'r' || *l->at == 'R';
        format = format || strchr("fFtT", *l->at) != NULL;
        prefix = prefix && strchr("rRbBfFtTuU", *l->at) != NULL;
    }
    *ret = (Word){begin, (size_t)(l->at - begin)};
    if (prefix && ret->size <= 2 && is_quote(peek(l, 0)))
        return skip_string(l, raw, format);
    return true;
}

static bool skip_field_token(Lexer *l)
{
    Word word;

    if (is_quote(*l->at))
        return skip_string(l, false, false);
    if (is_word(*l->at))
        return skip_word(l, &word);
    if (*l->at == '#')
        skip_comment(l);
    else
        l->at++;
    return true;
}

static bool skip_field_body(Lexer *l, char quote, bool triple)
{
    unsigned depth = 0;

    while (l->at < l->end) {
        char c = *l->at;

        if (depth == 0 && c == '}') {
            l->at++;
            return true;
        }
        if (depth == 0 && c == ':') {
            l->at++;
            return skip_format_spec(l, quote, triple);
        }
        if (strchr("([{", c))
            depth++;
        else if (strchr(")]}", c) && depth-- == 0)
            return false;
        if (!skip_field_token(l))
            return false;
    }
    return false;
}

static bool skip_field(Lexer *l, char quote, bool triple)
{
    if (l->nesting >= NESTING_MAX)
        return false;
    l->nesting++;
    bool whole = skip_field_body(l, quote, triple);
    l->nesting--;
    return whole;
}

static bool skip_format_spec(Lexer *l, char quote, bool triple)
{
    while (l->at < l->end) {
        char c = *l->at++;

        if (c == '}')
            return true;
        if (c == '{' && !skip_field(l, quote, triple))
            return false;
        if (!triple && (c == quote || c == '\n'))
            return false;
    }
    return false;
}

/* Skips what a backslash takes with it inside a string. */
static void skip_escape(Lexer *l, bool raw, bool fields)
{
    l->at++;
    if (fields && peek(l, 0) == '{')
        return;
    if (fields && !raw && peek(l, 0) == 'N' && peek(l, 1) == '{') {
        const char *brace = memchr(l->at, '}', (size_t)(l->end - l->at));
        l->at = brace ? brace : l->end;
    }
    if (l->at < l->end)
        l->at++;
}

/* From the opening quote to behind the closing one. */
static bool skip_string(Lexer *l, bool raw, bool format)
{
    char quote = *l->at;
    bool triple = peek(l, 1) == quote && peek(l, 2) == quote;
    bool fields = format && l->nested_quotes;

    l->at += triple ? 3 : 1;
    while (l->at < l->end) {
        char c = *l->at;

        if (c == '\\') {
            skip_escape(l, raw, fields);
        } else if (c == quote && (!triple || (peek(l, 1) == quote && peek(l, 2) == quote))) {
            l->at += triple ? 3 : 1;
            return true;
        } else if (c == '\n' && !triple) {
            return false;
        } else if (c == '{' && fields && peek(l, 1) == '{') {
            l->at += 2;
        } else {
            l->at++;
            if (c == '{' && fields && !skip_field(l, quote, triple))
                return false;
        }
    }
    return false;
}

static bool is_assignment(const Lexer *l)
{
    char before = l->at > l->begin ? l->at[-1] : '\0';

    return peek(l, 1) != '=' && !(before && strchr("=!<>:", before));
}

static void note_word(Statement *s, Word word)
{
    if (s->first && begins_statement(word))
        s->keyword = true;
    if (word_is(word, "lambda"))
        s->lambda = true;
    s->first = s->trailing = false;
}

static void note_mark(Statement *s, const Lexer *l, unsigned depth)
{
    char c = *l->at;

    if (s->first && c == '@')
        s->keyword = true;
    if (depth == 0 && c == '=' && is_assignment(l))
        s->assignment = true;
    s->trailing = depth == 0 && c == ';';
    s->semicolon = s->semicolon || s->trailing;
    s->first = false;
}

/* Takes one token or a run of white space. False where only the parser can tell. */
static bool lex(Lexer *l, Statement *s, unsigned *depth, bool *line_start)
{
    char c = *l->at;
    Word word;

    if (*line_start && *depth == 0 && !strchr(" \t#\n", c))
        *s = (Statement){.begin = l->at, .first = true};
    *line_start = c == '\n';
    if (c == '\f' || c == '\r')
        return false;
    if (c == '#') {
        skip_comment(l);
        return true;
    }
    if (c == '\\') {
        l->at += 2;
        return l->at <= l->end && l->at[-1] == '\n';
    }
    if (is_quote(c) || is_word(c)) {
        word = (Word){l->at, 0};
        bool whole = is_quote(c) ? skip_string(l, false, false) : skip_word(l, &word);
        note_word(s, word);
        return whole;
    }
    if (!strchr(" \t\n", c))
        note_mark(s, l, *depth);
    l->at++;
    if (strchr("([{", c))
        ++*depth;
    return !strchr(")]}", c) || (*depth)-- > 0;
}

Split split_cell(const char *code, size_t size, bool nested_quotes)
{
    Lexer l = {.begin = code, .at = code, .end = code + size, .nested_quotes = nested_quotes};
    Statement last = {0};
    bool line_start = true;
    unsigned depth = 0;

    while (l.at < l.end) {
        if (*l.at == '\0' || !lex(&l, &last, &depth, &line_start))
            return (Split){SPLIT_UNSURE, 0};
    }
    if (depth > 0)
        return (Split){SPLIT_UNSURE, 0};
    if (!last.begin || last.trailing)
        return (Split){SPLIT_WHOLE, 0};
    if (last.semicolon)
        return (Split){SPLIT_UNSURE, 0};
    if (last.keyword || (last.assignment && !last.lambda))
        return (Split){SPLIT_WHOLE, 0};
    return (Split){SPLIT_TAIL, (size_t)(last.begin - code)};
}
