/* Fields: the lines of an HTTP head, of a request or an answer. Pure. */
#pragma once

#include "proto/wire.h"

/* The size of the head, with the empty line at its end; 0: it has no end yet; -EPROTO: it has bytes that no
 * head has, such as the end of a line that is no CRLF. */
ssize_t fields_end(const uint8_t *bytes, size_t size);

typedef struct FieldLines {
    const char *next, *end;
} FieldLines;

/* The lines of a head that has an end, without it. */
void fields_begin(FieldLines *lines, const uint8_t *bytes, size_t size);
bool fields_next_line(FieldLines *lines, Text *ret);

/* "name: value", the value without space around it. False: it is none, or goes on from the line before. */
bool fields_split(Text line, Text *ret_name, Text *ret_value);
bool fields_is_token(Text text);
/* Returns whether a list with commas has the word, regardless of case. */
bool fields_list_has(Text list, Text word);
/* Returns whether the field of that name is about the connection and is not passed on. */
bool fields_are_of_connection(Text name);
