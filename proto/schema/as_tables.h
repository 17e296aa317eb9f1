/* Includes SCHEMA_FILE so that each schema of it becomes the function that has its table. Included once. */
#define BEGIN(type, name_, meaning)                                                                          \
    const Schema *schema_of_##type(void)                                                                     \
    {                                                                                                        \
        typedef type Body;                                                                                   \
        static const char name[] = name_;                                                                    \
        static const Field fields[] = {
#define END                                                                                                  \
    }                                                                                                        \
    ;                                                                                                        \
    static const Schema schema = {name, fields, ARRAY_SIZE(fields), sizeof(Body)};                           \
    return &schema;                                                                                          \
    }
#define EMPTY(type, name_, meaning)                                                                          \
    const Schema *schema_of_##type(void)                                                                     \
    {                                                                                                        \
        static const Schema schema = {.name = name_, .size = sizeof(type)};                                  \
        return &schema;                                                                                      \
    }

#define FLAT(type, member)
#define FLAT_END

#define ROW(type_, member, name_, need_, ...)                                                                \
    {.name = name_, .type = type_, .need = FIELD_##need_, .offset = offsetof(Body, member), __VA_ARGS__},
#define TEXT(member, need, max_, meaning)          ROW(FIELD_TEXT, member, #member, need, .max = max_)
#define TEXT_AS(member, name, need, max_, meaning) ROW(FIELD_TEXT, member, name, need, .max = max_)
#define BYTES(member, need, max_, meaning)         ROW(FIELD_BYTES, member, #member, need, .max = max_)
#define WORD(member, need, words_, meaning)        ROW(FIELD_WORD, member, #member, need, .words = words_)
#define NAME(member, need, meaning)                ROW(FIELD_NAME, member, #member, need, .max = LIMIT_SESSION_NAME)
#define BOOL(member, need, meaning)                ROW(FIELD_BOOL, member, #member, need, .max = 0)
#define UINT(member, need, max_, meaning)          ROW(FIELD_UINT, member, #member, need, .max = max_)
#define INT(member, need, meaning)                 ROW(FIELD_INT, member, #member, need, .max = 0)
#define DOUBLE(member, need, meaning)              ROW(FIELD_DOUBLE, member, #member, need, .max = 0)
#define SIZE(member, need, meaning)                ROW(FIELD_SIZE, member, #member, need, .max = 0)
#define MAP(member, need, meaning)                 ROW(FIELD_MAP, member, #member, need, .max = 0)
#define DICT(member, need, meaning)                ROW(FIELD_DICT, member, #member, need, .max = 0)
#define ARRAY(member, need, meaning)               ROW(FIELD_ARRAY, member, #member, need, .max = 0)
#define TEXTS(member, need, most_, max_, meaning)                                                            \
    ROW(FIELD_TEXTS, member, #member, need, .most = most_, .max = max_)
#define NAMES(member, need, most_, meaning) ROW(FIELD_NAMES, member, #member, need, .most = most_)
#define UINTS(member, need, most_, meaning) ROW(FIELD_UINTS, member, #member, need, .most = most_)
#define ROWS(member, need, type, most_, meaning)                                                             \
    ROW(FIELD_ROWS, member, #member, need, .most = most_, .of = schema_of_##type)
#define PART(member, need, type, meaning)                                                                    \
    ROW(FIELD_PART, member, #member, need, .given = offsetof(Body, has_##member), .of = schema_of_##type)

#include SCHEMA_FILE
#undef ROW
#include "proto/schema/end.h"
