#include "proto/messages.h"

const char *message_name(unsigned kind)
{
    switch (kind) {
#define MESSAGE(number, name, text, direction)                                                               \
    case number:                                                                                             \
        return text;
#include "proto/messages.def"
#undef MESSAGE
    default:
        return "unknown";
    }
}
