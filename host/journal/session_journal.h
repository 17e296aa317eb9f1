/* SessionJournal: what is written down of a sandbox in its journal (journal.h), and when; what for is
 * adoption.h's. And its history: the calls, with their code, for `export`. Nothing here fails, as nothing
 * does there: a sandbox without memory for one has none. */
#pragma once

#include "host/call/call.h"
#include "host/sandbox/sandbox.h"

/* From now on; what there is of it is written. */
void session_journal_begin(Sandbox *sandbox);
/* The same for an adopted one, whose journal has `size` bytes that make sense. */
void session_journal_go_on(Sandbox *sandbox, uint64_t size);
/* Nothing more. What is written of one that is left is the next controller's; otherwise it goes. */
void session_journal_end(Sandbox *sandbox);

/* Journals are in a directory of their own, as ID.journal each: the controller need not have the right to
 * enter those of sessions. Where the journal of the session directory `id` is. */
void session_journal_path(char *ret, size_t size, const Paths *paths, const char *id);

void session_journal_claimed(Sandbox *sandbox); /* another session has it now */
void session_journal_rewrite(Sandbox *sandbox); /* something else about it has changed */
void session_journal_ready(Sandbox *sandbox);
/* Other packages are mounted in it. */
void session_journal_packages(Sandbox *sandbox);
/* Its root session is SAVED. False when that could not be written. */
bool session_journal_saved(Sandbox *sandbox);
void session_journal_closing(Sandbox *sandbox);
void session_journal_branch(const Session *branch);
void session_journal_branch_closed(const Session *branch);

/* Its variables are those after that call from now on, or those of that branch. */
void session_journal_back(const Session *session, uint64_t execution_count);
void session_journal_committed(const Session *session, uint64_t from);

/* Writes down a call that has ended, and whose record is stored. */
void session_journal_call(const Call *call);

/* Its entry. 0, -ENOBUFS or -ENOMEM. */
int session_journal_add_call(Buf *batch, const Call *call);

/* Appends entries of its history from offset *at on to `ret`, as many as fit into `most` bytes and one at
 * least; *at is where the next begins. 0; or -EBADMSG where no entry begins at *at. */
int history_read(const Sandbox *sandbox, uint64_t *at, size_t most, Buf *ret, uint32_t *ret_count);

/* Removes the histories of sessions that there are none of any more. */
void history_sweep(const Paths *paths);
