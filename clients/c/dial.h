/* Dialling: a command whose standard input and output are one connection to a controller on another machine,
 * as `limpet dial-stdio` makes them there. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Time that the command may take until the controller has answered. */
#define DIAL_SECONDS 9

typedef struct DialledCommand {
    pid_t pid;    /* 0: none */
    int words_fd; /* its standard error; what it says when that is full is lost, and it goes on */
} DialledCommand;

#define DIALLED_NULL ((DialledCommand){.words_fd = -1})

/* Tells whether an address names a command: exec:, ssh://, docker:// or kubernetes://. */
bool dial_is(const char *address);

/* The arguments of that command; to be freed with dial_arguments_free(). 0, -EPROTO with the problem, or
 * -ENOMEM. */
int dial_arguments(char ***ret, const char *address, Problem *problem);
char **dial_arguments_free(char **arguments);
DEFINE_CLEANUP(char **, dial_arguments_free);

/* Starts the command. *ret_fd is the connection. 0, -EPROTO with the problem, or another negative errno. */
int dial(DialledCommand *ret, int *ret_fd, const char *address, Problem *problem);
/* Ends the command, if it has not ended. */
void dial_end(DialledCommand *command);

/* Leaves it to itself: it ends with its connection. */
void dial_release(DialledCommand *command);

/* Why there is no controller there, in the command's own words: -EPROTO with the problem, or -ENOMEM.
 * `silent`: the command still runs, and has not become a connection in time. Ends it. */
int dial_explain(DialledCommand *command, const char *address, bool silent, Problem *problem);
