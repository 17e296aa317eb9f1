#include "proto/ask_mode.h"

static const char *const names[] = {[ASK_PAUSE] = "pause", [ASK_COUNT] = "count"};

const char *ask_mode_name(AskMode mode)
{
    return names[mode];
}

AskMode ask_mode_parse(Text text)
{
    for (AskMode mode = ASK_PAUSE; mode <= ASK_COUNT; mode++)
        if (text_equal(text, names[mode]))
            return mode;
    return ASK_NOBODY;
}
