/* AskMode: whether somebody answers the questions of a call, and whether its time runs while one waits. */
#pragma once

#include "proto/wire.h"

typedef enum AskMode {
    ASK_NOBODY,
    ASK_PAUSE, /* time in which a question waits does not count towards the call's timeout */
    ASK_COUNT, /* it does */
} AskMode;

/* ASK_NOBODY of no text, and of one that is no mode. */
AskMode ask_mode_parse(Text text);
const char *ask_mode_name(AskMode mode); /* NULL of ASK_NOBODY */
