#include "clients/c/cli/repl/repl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"

/* ---- hidden calls ---- */

#define TIMEOUT 3.0 /* seconds: __dir__ and __getattr__ of somebody's objects run */

bool hidden_session_idle(LimpetClient *client, const char *session)
{
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;
    size_t size = strlen(session);
    bool found = false;

    if (limpet_sessions(client, &list))
        return false;
    for (size_t i = 0; i < list->n_sessions; i++) {
        const LimpetSession *s = &list->sessions[i];

        if (strncmp(s->session, session, size) != 0 || (s->session[size] && s->session[size] != '/'))
            continue;
        if (strcmp(s->status, "idle") != 0)
            return false;
        found = true;
    }
    return found;
}

/* Likewise of the prompt's own session, without waiting for a controller either. */
static bool hidden_idle(Repl *repl)
{
    return !repl->gone && hidden_session_idle(repl->client, repl->origin);
}

char *hidden_run(Repl *repl, const char *code)
{
    _cleanup_(limpet_result_freep) LimpetResult *result = NULL;
    LimpetRun run = {
        .session = repl->session,
        .instance = *repl->instance ? repl->instance : NULL,
        .code = code,
        .timeout = TIMEOUT,
    };

    if (!hidden_idle(repl) || limpet_run(repl->client, &run, &result))
        return NULL;
    show_state(result);
    return result->status == LIMPET_OK ? strdup(result->stdout_text) : NULL;
}

/* ---- completion ---- */

#define NAME_MAX_SIZE 512

/* Names of Python 3; those that are newer or missing in a session's Python hardly matter here. */
static const char *const common[] = {
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "match",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "EOFError",
    "Exception",
    "FileNotFoundError",
    "ImportError",
    "IndexError",
    "KeyError",
    "KeyboardInterrupt",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PermissionError",
    "RecursionError",
    "RuntimeError",
    "StopIteration",
    "SyntaxError",
    "SystemExit",
    "TimeoutError",
    "TypeError",
    "UnicodeDecodeError",
    "UnicodeError",
    "ValueError",
    "ZeroDivisionError",
    "abs",
    "all",
    "any",
    "ascii",
    "bin",
    "bool",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "compile",
    "complex",
    "delattr",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "eval",
    "exec",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "help",
    "hex",
    "id",
    "input",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "locals",
    "map",
    "max",
    "memoryview",
    "min",
    "next",
    "object",
    "oct",
    "open",
    "ord",
    "pow",
    "print",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "tuple",
    "type",
    "vars",
    "zip",
};

/* The dotted name is put in the place of %s; it has nothing that means anything in a string. */
static const char attributes_code[] =
    "exec('''\n"
    "import builtins\n"
    "first, *rest, start = text.split('.')\n"
    "value = variables[first] if first in variables else getattr(builtins, first)\n"
    "for name in rest:\n"
    "    value = getattr(value, name)\n"
    "for name in dir(value):\n"
    "    if name.startswith(start) and (start or not name.startswith('_')):\n"
    "        print(name)\n"
    "''', {'variables': globals(), 'text': '%s'})";

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80;
}

/* The dotted name at the end of the line; NULL when there is none, or it belongs to a call or an index, which
 * is not run. */
static const char *name_at_end(const char *line)
{
    size_t size = strlen(line), n = 0;
    const char *name;

    while (n < size && is_name_character(line[size - n - 1]))
        n++;
    name = line + size - n;
    if (n == 0 || n > NAME_MAX_SIZE || *name == '.' || isdigit((unsigned char)*name) || strstr(name, ".."))
        return NULL;
    return name;
}

static void add_lines(Words *words, char *text, const char *prefix)
{
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        words_add(words, line, prefix);
}

static void add_attributes(Repl *repl, const char *name, Words *words)
{
    const char *start = strrchr(name, '.') + 1;
    char code[sizeof(attributes_code) + NAME_MAX_SIZE];
    _cleanup_(freep) char *printed = NULL;

    snprintf(code, sizeof(code), attributes_code, name);
    printed = hidden_run(repl, code);
    words->from = strlen(start);
    if (printed)
        add_lines(words, printed, start);
}

static void add_names(Repl *repl, const char *name, Words *words)
{
    _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;

    words->from = strlen(name);
    for (size_t i = 0; i < ARRAY_SIZE(common); i++)
        words_add(words, common[i], name);
    if (!hidden_idle(repl) || limpet_namespace(repl->client, repl->session, &names))
        return;
    for (size_t i = 0; i < names->n_variables; i++)
        words_add(words, names->variables[i].name, name);
}

void complete_line(void *context, const char *before, Words *ret)
{
    Repl *repl = context;
    const char *line = strrchr(before, '\n');
    const char *name;

    if (*before == ':') {
        commands_complete(repl, before, ret);
        return;
    }
    name = name_at_end(line ? line + 1 : before);
    if (!name)
        return;
    if (strchr(name, '.'))
        add_attributes(repl, name, ret);
    else
        add_names(repl, name, ret);
}
