/* The stable error numbers, made from errors.def. */
#pragma once

typedef enum ErrorCode {
    ERR_NONE = 0,
#define ERROR(number, name, text, meaning) ERR_##name = number,
#include "proto/errors.def"
#undef ERROR
} ErrorCode;

/* "BadRequest" for ERR_BAD_REQUEST; "Unknown" for a number not in the table. */
const char *error_name(ErrorCode code);
