#include "proto/errors.h"

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
