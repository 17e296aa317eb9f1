/* The kinds of open files, for openfiles.c alone. */
#pragma once

#include "guest/interpreter/checkpoint/no_malloc.h"
#include "guest/interpreter/checkpoint/openfiles.h"

/* Opens what the kernel tells about a descriptor: 0 or a negative errno. */
int fdinfo_open(Lines *ret, int fd);

/* Puts `fd`, which is taken, under the number of `file`, with the flags that has. */
void openfile_place(OpenFile *file, int fd);

/* Returns the index behind the last of the items that are the same file as items[i]. */
size_t openfiles_same(const OpenFiles *files, size_t i);

/* Pipes, sockets and terminals. Recording copies what is in them, and finds out what is needed to make others
 * like them. */
void ends_record(OpenFile *file, Notes *notes);
void ends_restore(OpenFiles *files, Notes *notes);
void ends_deinit(OpenFile *file);

/* Files without an inode of their own. Recording makes `file` one of its kinds; false for what is none. */
bool events_record(OpenFile *file);
void events_restore(OpenFiles *files, Notes *notes);
void events_deinit(OpenFile *file);
