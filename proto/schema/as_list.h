/* Includes SCHEMA_FILE inside the braces of an array: each schema of it becomes its function, schema_of_NAME,
 * with a comma behind it. */
#define BEGIN(type, name, meaning) schema_of_##type,
#define END
#define EMPTY(type, name, meaning) schema_of_##type,
#define FLAT(...)
#define FLAT_END
#define TEXT(...)
#define TEXT_AS(...)
#define BYTES(...)
#define WORD(...)
#define NAME(...)
#define BOOL(...)
#define UINT(...)
#define INT(...)
#define DOUBLE(...)
#define SIZE(...)
#define MAP(...)
#define DICT(...)
#define ARRAY(...)
#define TEXTS(...)
#define NAMES(...)
#define UINTS(...)
#define ROWS(...)
#define PART(...)

#include SCHEMA_FILE
#include "proto/schema/end.h"
