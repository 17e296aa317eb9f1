/* What is written down of a sandbox, and when; what for is adopt.h's. Nothing here fails: see journal.h. */
#pragma once

#include "host/call.h"
#include "host/sandbox.h"

/* From now on; what there is of it is written. -ENOMEM. */
int journal_begin(Sandbox *sandbox);

/* The same for an adopted one, whose journal has `size` bytes that make sense. */
int journal_go_on(Sandbox *sandbox, uint64_t size);

/* Where the journal of the session directory `id` is. */
void journal_path(char *ret, size_t size, const Controller *controller, const char *id);

void journal_ready(Sandbox *sandbox);
void journal_closing(Sandbox *sandbox);
void journal_branch(const Session *branch);
void journal_branch_closed(const Session *branch);

/* It has ended, and its record is stored. */
void journal_call(const Call *call);

/* Its entry. 0, -ENOBUFS or -ENOMEM. */
int journal_add_call(Buf *batch, const Call *call);
