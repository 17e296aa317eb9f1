/* The message numbers, made from messages.def. */
#pragma once

typedef enum MessageKind {
    MSG_NONE = 0,
#define MESSAGE(number, name, text, direction) MSG_##name = number,
#include "proto/messages.def"
#undef MESSAGE
} MessageKind;

/* "run" for MSG_RUN; "unknown" for a number not in the table. */
const char *message_name(unsigned kind);
