/* Variables: how the interpreter describes names of the namespace, in `changed` of a record and in the reply
 * to `namespace`. Its words are checked one by one and written anew. */
#pragma once

#include "proto/wire.h"

/* At most `max` variables. Negative with the problem set when one is malformed or there are too many. */
int variables_check(const msgpack_object_array *variables, size_t max, Problem *problem);

/* Ones that were checked. */
void variables_write(Writer *w, const msgpack_object_array *variables);

/* Names a cell bound; points into the message. */
typedef struct Changed {
    const msgpack_object_array *added, *changed; /* variables */
    const msgpack_object_array *deleted;         /* text */
    uint64_t more;
} Changed;

/* Negative with the problem set when it is malformed or one of its lists is longer than LIMIT_CHANGED. */
int changed_decode(Changed *ret, const msgpack_object_map *body, Problem *problem);
void changed_write(Writer *w, const Changed *changed);

/* At most `max` texts of at most `size` bytes each; what they are is for the problem. */
int texts_check(const msgpack_object_array *texts, size_t max, size_t size, const char *what,
                Problem *problem);
void texts_write(Writer *w, const msgpack_object_array *texts); /* NULL: none */
