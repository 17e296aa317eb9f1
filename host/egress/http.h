/* HTTP/1.1 as a proxy reads and writes it: heads, fields, chunked bodies. Strict: what two readers could
 * understand in two ways is refused. Pure. */
#pragma once

#include "host/network/network.h"
#include "proto/wire.h"

/* The size of the head, with the empty line at its end; 0: it has no end yet; -EPROTO: it has bytes that no
 * head has, such as the end of a line that is no CRLF. */
ssize_t fields_end(const uint8_t *bytes, size_t size);

#define HEAD_MAX        (64u << 10)
#define HEAD_FIELDS_MAX 128u

typedef enum HeadBody {
    BODY_NONE,
    BODY_LENGTH,
    BODY_CHUNKED,
} HeadBody;

typedef struct HeadField {
    Text name, value; /* without the space around it */
} HeadField;

/* HttpHead: the first part of an HTTP/1.1 request as it is said to a proxy. Points into the bytes. */
typedef struct HttpHead {
    Text method;
    bool connect;         /* a request for a tunnel */
    char host[HOST_SIZE]; /* normalised */
    uint16_t port;
    Text path; /* begins with "/"; of no tunnel */
    HeadField fields[HEAD_FIELDS_MAX];
    size_t n;
    HeadBody body;
    uint64_t length; /* BODY_LENGTH */
    bool keeps;      /* the connection, for another request */
    bool chunks;     /* the asker understands a chunked answer */
    bool expects;    /* to be told to go on before it sends the body */
} HttpHead;

/* The size of the head; 0: there is more to come; or -EPROTO with the status and the problem set. */
ssize_t head_parse(HttpHead *ret, const uint8_t *bytes, size_t size, unsigned *ret_status, Problem *problem);

/* Returns whether a field is about this connection and not about the message, as `connection` fields say,
 * too. */
bool head_field_is_ours(const HttpHead *head, const HeadField *field);
bool text_is(Text text, const char *word); /* regardless of case */

/* Chunks: a chunked body, read piece by piece. */
typedef struct Chunks {
    int state;
    uint64_t left; /* of the chunk */
    size_t digits, line;
} Chunks;

void chunks_begin(Chunks *chunks);

/* Takes from `bytes` and appends what the body has to `ret`, whose limit is not reached by that. How many
 * bytes were taken, which are all unless the body ends; or -EPROTO. */
ssize_t chunks_take(Chunks *chunks, const uint8_t *bytes, size_t size, Buf *ret);
bool chunks_ended(const Chunks *chunks);

/* HttpAnswer: the head and the body of an answer, from how a server has said them to how a sandbox is told.
 */
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
