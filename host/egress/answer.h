/* HttpAnswer: the head and the body of an HTTP answer, from how a server has said them to how a sandbox is
 * told. Pure. */
#pragma once

#include "proto/wire.h"

typedef struct HttpAnswer {
    bool to_head;   /* the asker wants no body */
    bool may_chunk; /* and understands one in chunks */
    bool keeps;     /* the connection; false where the end of it is the end of the body */
    unsigned status;
    bool begun; /* the head has been said */
    bool has_length, chunked;
    Buf head;                   /* so far */
    char *origin, *path, *name; /* of a binding: what `location` may name, and how the sandbox calls it */
} HttpAnswer;

void answer_init(HttpAnswer *answer, bool to_head, bool may_chunk, bool keeps);
void answer_deinit(HttpAnswer *answer);
/* "https://host:port/", "/path" and the name of the binding. 0 or -ENOMEM. */
int answer_set_origin(HttpAnswer *answer, const char *origin, const char *path, const char *name);

/* A line of the head, with its end; the empty one is the last. What is to be said is appended. 0, -EPROTO or
 * -ENOMEM. */
int answer_line(HttpAnswer *answer, Text line, Buf *ret);
int answer_body(HttpAnswer *answer, const void *bytes, size_t size, Buf *ret);
int answer_end(HttpAnswer *answer, Buf *ret); /* all of the body has come */
