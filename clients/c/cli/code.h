/* Code that a command is given as a file. */
#pragma once

#include "clients/c/cli/cli.h"
#include "proto/base/buf.h"

/* "limpet: PATH: ..." on standard error; EXIT_USAGE. */
int code_complain(const char *path, int error);

/* Reads a file, or standard input for "-", whole, but no more than tells that it is too long. 0, or
 * EXIT_USAGE after a message. */
int code_read(const char *file, Buf *ret);
