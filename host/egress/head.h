/* HttpHead: the first part of an HTTP/1.1 request as it is said to a proxy, read from bytes of which nothing
 * is believed. Strict: what two readers could understand in two ways is refused. Pure. */
#pragma once

#include "host/network/network.h"

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

/* Points into the bytes. */
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
