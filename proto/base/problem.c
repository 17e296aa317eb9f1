#include "proto/base/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Takes a character off the end that truncation left incomplete. */
static void drop_partial_character(char *text, size_t size)
{
    size_t i = size;

    while (i > 0 && size - i < 3 && ((unsigned char)text[i - 1] & 0xc0) == 0x80)
        i--;
    if (i == 0)
        return;
    unsigned char lead = (unsigned char)text[i - 1];
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (size - i + 1 < length)
        text[i - 1] = '\0';
}

static void finish(char *text, int written)
{
    if (written < 0)
        text[0] = '\0';
    else if (written >= PROBLEM_TEXT_MAX)
        drop_partial_character(text, PROBLEM_TEXT_MAX - 1);
}

int problem_set(Problem *problem, ErrorCode code, const char *format, ...)
{
    va_list args;

    problem->code = code;
    va_start(args, format);
    finish(problem->text, vsnprintf(problem->text, sizeof(problem->text), format, args));
    va_end(args);
    return -EPROTO;
}

void problem_prefix(Problem *problem, const char *format, ...)
{
    char context[PROBLEM_TEXT_MAX], joined[PROBLEM_TEXT_MAX];
    va_list args;
    size_t used;

    va_start(args, format);
    finish(context, vsnprintf(context, sizeof(context), format, args));
    va_end(args);
    used = strlen(context);
    memcpy(joined, context, used + 1);
    finish(joined, (int)used + snprintf(joined + used, sizeof(joined) - used, ": %s", problem->text));
    memcpy(problem->text, joined, sizeof(joined));
}

const char *error_name(ErrorCode code)
{
    switch (code) {
    case ERR_NONE:
        break;
#define ERROR(number, name, text, meaning)                                                                   \
    case ERR_##name:                                                                                         \
        return text;
#include "proto/errors.def"
#undef ERROR
    }
    return "Unknown";
}
