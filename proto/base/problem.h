/* Problem: why something a user asked for failed. One stable error (proto/errors.def) and one bounded
 * sentence that says what to do. Text is attached once, where the words are known; functions that fill a
 * Problem do not log. No allocation, so that running out of memory can be reported too. */
#pragma once

#include "proto/base/base.h"

/* The stable error numbers. */
typedef enum ErrorCode {
    ERR_NONE = 0,
#define ERROR(number, name, text, meaning) ERR_##name = number,
#include "proto/errors.def"
#undef ERROR
} ErrorCode;

/* "BadRequest" for ERR_BAD_REQUEST; "Unknown" for a number not in the table. */
const char *error_name(ErrorCode code);

#define PROBLEM_TEXT_MAX 1024

typedef struct Problem {
    ErrorCode code; /* 0: no problem */
    char text[PROBLEM_TEXT_MAX];
} Problem;

#define PROBLEM_NULL ((Problem){0})

/* Sets code and text and returns -EPROTO, so that a function can `return problem_set(p, ...)`. */
int problem_set(Problem *problem, ErrorCode code, const char *format, ...) _printf_(3, 4);

/* Puts "context: " before the text that is there. */
void problem_prefix(Problem *problem, const char *format, ...) _printf_(2, 3);
