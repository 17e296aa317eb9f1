/* The set of checkpoints: finding them, and what is told of them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/checkpoint.h"

#define ID_SIZE 24

static void set_id(char ret[ID_SIZE], uint64_t number)
{
    snprintf(ret, ID_SIZE, "c%" PRIu64, number);
}

static Checkpoint *first_where(const Checkpoints *set, bool (*holds)(const Checkpoint *, const void *),
                               const void *what)
{
    Checkpoint *checkpoint;

    list_foreach (checkpoint, (List *)&set->all, Checkpoint, link)
        if (holds(checkpoint, what))
            return checkpoint;
    return NULL;
}

static bool is_pending(const Checkpoint *checkpoint, const void *unused)
{
    return checkpoint->state == CHECKPOINT_PENDING;
}

static bool has_ended(const Checkpoint *checkpoint, const void *unused)
{
    return checkpoint->state == CHECKPOINT_KEPT && checkpoint->pid == 0;
}

static bool is_birth(const Checkpoint *checkpoint, const void *unused)
{
    return checkpoint->kind == CHECKPOINT_BIRTH;
}

static bool is_listed(const Checkpoint *checkpoint)
{
    return checkpoint->state == CHECKPOINT_KEPT && checkpoint->kind != CHECKPOINT_BIRTH;
}

static bool has_pid(const Checkpoint *checkpoint, const void *pid)
{
    return checkpoint->pid == *(const pid_t *)pid;
}

static bool is_called(const Checkpoint *checkpoint, const void *what)
{
    const Text *called = what;
    char id[ID_SIZE];

    set_id(id, checkpoint->number);
    return is_listed(checkpoint) &&
           (text_equal(*called, id) || (checkpoint->name[0] && text_equal(*called, checkpoint->name)));
}

/* Dropping one may make others go: each time the list is looked through anew. */
void checkpoints_drop_pending(Checkpoints *set, const char *why)
{
    Checkpoint *checkpoint;

    while ((checkpoint = first_where(set, is_pending, NULL)))
        checkpoint_drop(checkpoint, why);
}

void checkpoints_drop_ended(Checkpoints *set)
{
    Checkpoint *checkpoint;

    while ((checkpoint = first_where(set, has_ended, NULL)))
        checkpoint_drop(checkpoint, CHECKPOINT_LOST);
}

typedef struct Replaced {
    uint64_t branch, before;
} Replaced;

static bool is_replaced(const Checkpoint *checkpoint, const void *what)
{
    const Replaced *replaced = what;

    return checkpoint->kind == CHECKPOINT_AUTOMATIC && checkpoint->branch == replaced->branch &&
           checkpoint->number < replaced->before;
}

void checkpoints_drop_automatic(Checkpoints *set, uint64_t branch, const Checkpoint *newest)
{
    Replaced replaced = {branch, newest ? newest->number : UINT64_MAX};
    Checkpoint *checkpoint;

    while ((checkpoint = first_where(set, is_replaced, &replaced)))
        if (!set->hand_on(set, checkpoint))
            checkpoint_drop(checkpoint, NULL);
}

Checkpoint *checkpoints_find_pid(const Checkpoints *set, pid_t pid)
{
    return pid > 0 ? first_where(set, has_pid, &pid) : NULL;
}

Checkpoint *checkpoints_birth(const Checkpoints *set)
{
    return first_where(set, is_birth, NULL);
}

Checkpoint *checkpoints_find(const Checkpoints *set, Text id_or_name)
{
    return first_where(set, is_called, &id_or_name);
}

/* What is told */

void checkpoint_write_number(Writer *w, uint64_t number)
{
    char id[ID_SIZE];

    set_id(id, number);
    write_text(w, id);
}

void checkpoint_write_id(Writer *w, const Checkpoint *checkpoint)
{
    if (checkpoint)
        checkpoint_write_number(w, checkpoint->number);
    else
        write_nil(w);
}

void checkpoint_write_row(Writer *w, const Checkpoint *checkpoint)
{
    const Checkpoint *parent = checkpoint->parent;

    while (parent && !is_listed(parent))
        parent = parent->parent;
    write_map(w, 8);
    write_key(w, "id");
    checkpoint_write_id(w, checkpoint);
    write_key(w, "name");
    write_text(w, checkpoint->name[0] ? checkpoint->name : NULL);
    write_key(w, "branch");
    write_uint(w, checkpoint->branch);
    write_key(w, "execution_count");
    write_uint(w, checkpoint->execution_count);
    write_key(w, "created");
    write_double(w, checkpoint->created);
    write_key(w, "automatic");
    write_bool(w, checkpoint->kind == CHECKPOINT_AUTOMATIC);
    write_key(w, "private_bytes");
    write_uint(w, checkpoint->private_bytes);
    write_key(w, "parent");
    checkpoint_write_id(w, parent);
}

void checkpoints_write(Writer *w, const Checkpoints *set)
{
    Checkpoint *checkpoint;

    write_array(w, set->kept);
    list_foreach (checkpoint, (List *)&set->all, Checkpoint, link)
        if (is_listed(checkpoint))
            checkpoint_write_row(w, checkpoint);
}

void checkpoints_write_evicted(Writer *w, Checkpoints *set)
{
    uint64_t number;

    write_array(w, set->evicted.size / sizeof(number));
    for (; set->evicted.size > 0; buf_consume(&set->evicted, sizeof(number))) {
        memcpy(&number, buf_head(&set->evicted), sizeof(number));
        checkpoint_write_number(w, number);
    }
}
