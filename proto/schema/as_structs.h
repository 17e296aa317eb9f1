/* Includes SCHEMA_FILE so that each schema of it becomes a struct and the function that has its table. */
#define BEGIN(type, name, meaning)                                                                           \
    typedef struct type type;                                                                                \
    const Schema *schema_of_##type(void);                                                                    \
    struct type {
#define END                                                                                                  \
    }                                                                                                        \
    ;
#define EMPTY(type, name, meaning)                                                                           \
    BEGIN(type, name, meaning)                                                                               \
    char nothing;                                                                                            \
    END

/* Members in between have the layout of `type`, which schema.c sees to. */
#define FLAT(type, member)                                                                                   \
    union {                                                                                                  \
        type member;                                                                                         \
        struct {
#define FLAT_END                                                                                             \
    }                                                                                                        \
    ;                                                                                                        \
    }                                                                                                        \
    ;

#define TEXT(member, need, max, meaning)          Text member;
#define TEXT_AS(member, name, need, max, meaning) Text member;
#define BYTES(member, need, max, meaning)         Text member;
#define WORD(member, need, words, meaning)        Text member;
#define NAME(member, need, meaning)               Text member;
#define BOOL(member, need, meaning)               bool member;
#define UINT(member, need, max, meaning)          uint64_t member;
#define INT(member, need, meaning)                int64_t member;
#define DOUBLE(member, need, meaning)             double member;
#define SIZE(member, need, meaning)               Size member;
#define MAP(member, need, meaning)                Value member;
#define DICT(member, need, meaning)               Value member;
#define ARRAY(member, need, meaning)              Value member;
#define TEXTS(member, need, most, max, meaning)   Value member;
#define NAMES(member, need, most, meaning)        Value member;
#define UINTS(member, need, most, meaning)        Value member;
#define ROWS(member, need, type, most, meaning)   Value member;
#define PART(member, need, type, meaning)                                                                    \
    bool has_##member;                                                                                       \
    type member;

#include SCHEMA_FILE
#include "proto/schema/end.h"
