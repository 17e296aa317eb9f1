/* Block: what is typed at the prompt until it can be run. Decided on the text alone, without Python, by the
 * rules of Python's own prompt: an open bracket, string or backslash goes on; what begins a compound
 * statement goes on until a blank line; so does what stands under one. Text that is wrong counts as complete:
 * Python says why. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns whether `text` can be run. Text of blank lines and comments can, though there is nothing to do. */
bool block_complete(const char *text, size_t size);

/* Returns whether there is nothing to run. */
bool block_empty(const char *text, size_t size);

/* Returns the number of spaces that the line after an incomplete text begins with. */
size_t block_indent(const char *text, size_t size);
