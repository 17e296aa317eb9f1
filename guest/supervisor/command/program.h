/* Program: what is to be run, as a message has it, checked and ready for execve(). */
#pragma once

#include "guest/supervisor/interpreter/environment.h"
#include "guest/supervisor/command_line.h"
#include "proto/schema.h"

typedef struct Program {
    char **argv; /* NULL at the end */
    Environment environment;
    char *directory;
} Program;

/* A directory is below the session's own where it is not absolute, and /session means that on every engine.
 * 0, or -EPROTO with a Problem. */
int program_init(Program *ret, const MsgProgram *said, const CommandLine *command_line,
                 const Environment *environment, Problem *problem);
void program_deinit(Program *program);

/* Its line, or its arguments with spaces between, as text: `size` bytes at most, and cut short where that is
 * less. */
void program_describe(const Program *program, char *ret, size_t size);
