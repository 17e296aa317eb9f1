/* What the parts of a branch do for each other; nobody else includes this. */
#pragma once

#include "guest/supervisor/branch/branch.h"

/* branch.c */

/* The last call whose effects are in RAM; 0: none. */
uint64_t branch_state_count(const Branch *branch);

/* Tells whoever waits for the interpreter that it will not be ready. */
void branch_start_failed(Branch *branch, const char *why);

/* Asks for a copy of a checkpoint, which becomes the interpreter. 0 or a negative errno. */
int branch_copy(Branch *branch, Checkpoint *checkpoint);

/* branches.c */

/* Waits, at most so long, until every copy in the making is ready. A copy that is ended before leaves its
 * original with the locks of half a fork, and no other copy comes from there. */
void branches_settle_copies(Branches *set, uint64_t limit);

/* Kills every process that belongs to no checkpoint and to no branch but `branch`. How many there were, its
 * interpreter left out. */
int branches_purge(Branches *set, Branch *branch);

/* freeze.c */

int branch_on_checkpointed(Branch *branch, const Message *message, Problem *problem);
void branch_on_kept(Branch *branch, Checkpoint *checkpoint);
void branch_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why);

/* policy.c */

int policy_init(Branch *branch);
void policy_deinit(Branch *branch);

void policy_on_run(Branch *branch, uint64_t now); /* a call is about to run */
/* A checkpoint took `cost` nanoseconds. It counts as at most twice the last: a busy machine makes one seem
 * dear, and the next would come too late. */
void policy_on_cost(Branch *branch, uint64_t cost);
void policy_on_failure(Branch *branch, const char *why);
void policy_on_success(Branch *branch);
void policy_on_taken(Branch *branch); /* a checkpoint is in the making */
void policy_on_gone(Branch *branch);  /* the checkpoint under the live state has gone */
void policy_forget(Branch *branch);   /* the live state is another one */

/* recovery.c */

/* Deals with an interpreter that has ended or is doomed, and with a recovery whose step has failed. */
void branch_sweep(Branch *branch);

/* Begins anew with a copy of the birth checkpoint. false: there is none. */
bool branch_begin_anew(Branch *branch);

/* The copy in the making does not come, for that reason. */
void recovery_refused(Branch *branch, const char *why);
/* The copy in the making has been ended with processes that are nobody's. It is asked for again. */
void recovery_copy_again(Branch *branch);
void recovery_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why);
/* The copy is ready. `notes` say what is not in it; they are taken. */
void recovery_ready(Branch *branch, EncodedNotes *notes, Value memory);
void recovery_note_processes(const Branch *branch, EncodedNotes *notes);
