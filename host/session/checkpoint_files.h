/* Files that orders keep and bring back: the copies of /session that are kept with checkpoints. The file
 * service of files copies them, while the order has its turn and nothing else runs. */
#pragma once

#include "host/session/order.h"
#include "host/session/session.h"

/* Told to an order that waits: its step is done, and the file service has answered that; or it failed, and
 * `problem` is not NULL. Nobody is told once the order has detached it. */
typedef void FilesThen(Order *order, const Problem *problem, const JobAnswer *answer);

/* Begins to copy, for the checkpoint that is taken next; to bring the copy of a checkpoint beside /session;
 * to have it change places with what is there; to remove it again. 0, or negative with the problem set. */
int checkpoint_files_take(Order *order, FilesThen *then, Problem *problem);
int checkpoint_files_stage(Order *order, const char *checkpoint, FilesThen *then, Problem *problem);
int checkpoint_files_restore(Order *order, FilesThen *then, Problem *problem);
int checkpoint_files_unstage(Order *order, FilesThen *then, Problem *problem);

/* Takes what is in artifacts now for reported; `then` is told in any case, unless the order has detached it.
 * Where it cannot be, the next call reports it. */
void checkpoint_files_accept(Order *order, void (*then)(Order *order));

/* Begins to copy /session for a template, whose id is `template`. As the others. */
int checkpoint_files_take_template(Order *order, const char *template, FilesThen *then, Problem *problem);

/* Makes the copy that was taken last that of a checkpoint; finds the copy of one, by its id or name; lists
 * those that there are. As the others. */
int checkpoint_files_keep(Order *order, Text checkpoint, Text name, uint64_t bytes, FilesThen *then,
                          Problem *problem);
int checkpoint_files_find(Order *order, const char *checkpoint, FilesThen *then, Problem *problem);
int checkpoint_files_list(Order *order, FilesThen *then, Problem *problem);

/* Removes the copy that was taken last; that of a checkpoint; or those whose checkpoint is not among these,
 * which are as the supervisor lists them. */
void checkpoint_files_give_up(const Sandbox *sandbox);
void checkpoint_files_drop(const Sandbox *sandbox, Text checkpoint);
void checkpoint_files_prune(const Sandbox *sandbox, const Value *checkpoints);

/* A checkpoint as clients are told of it: `name`, which it may point to, stands for its branch. */
MsgCheckpoint checkpoint_to_wire(const Session *root, const MsgGuestCheckpoint *said, bool files,
                                 char name[static BRANCH_NAME_SIZE]);
