/* The set of checkpoints: finding them, and what is told of them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/checkpoint/checkpoint.h"

Text checkpoint_id(CheckpointId ret, uint64_t number)
{
    snprintf(ret, sizeof(CheckpointId), "c%" PRIu64, number);
    return text_of(ret);
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
    return checkpoint_is_pending(checkpoint);
}

static bool has_ended(const Checkpoint *checkpoint, const void *unused)
{
    return checkpoint->state == CHECKPOINT_ENDED;
}

static bool is_birth(const Checkpoint *checkpoint, const void *unused)
{
    return checkpoint->kind == CHECKPOINT_BIRTH;
}

static bool is_listed(const Checkpoint *checkpoint)
{
    return !checkpoint_is_pending(checkpoint) && checkpoint->kind != CHECKPOINT_BIRTH;
}

static bool has_pid(const Checkpoint *checkpoint, const void *pid)
{
    return checkpoint->pid == *(const pid_t *)pid;
}

static bool is_called(const Checkpoint *checkpoint, const void *what)
{
    const Text *called = what;
    CheckpointId id;

    checkpoint_id(id, checkpoint->number);
    return is_listed(checkpoint) &&
           (text_equal(*called, id) || (checkpoint->name[0] && text_equal(*called, checkpoint->name)));
}

/* Dropping a checkpoint may make others go, so the list is looked through anew each time. */
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

/* Listing */

void checkpoint_say(CheckpointRow *ret, const Checkpoint *checkpoint)
{
    const Checkpoint *parent = checkpoint->parent;

    while (parent && !is_listed(parent))
        parent = parent->parent;
    ret->said = (MsgGuestCheckpoint){
        .id = checkpoint_id(ret->id, checkpoint->number),
        .name = text_of(checkpoint->name[0] ? checkpoint->name : NULL),
        .branch = checkpoint->branch,
        .execution_count = checkpoint->execution_count,
        .created = checkpoint->created,
        .automatic = checkpoint->kind == CHECKPOINT_AUTOMATIC,
        .private_bytes = checkpoint->private_bytes,
        .parent = parent ? checkpoint_id(ret->parent, parent->number) : (Text){0},
    };
}

static void write_rows(Writer *w, const void *source)
{
    const Checkpoints *set = source;
    Checkpoint *checkpoint;
    CheckpointRow row;

    write_array(w, set->kept);
    list_foreach (checkpoint, (List *)&set->all, Checkpoint, link) {
        if (!is_listed(checkpoint))
            continue;
        checkpoint_say(&row, checkpoint);
        body_write(w, MsgGuestCheckpoint, &row.said);
    }
}

Value checkpoints_say(const Checkpoints *set)
{
    return (Value){.write = write_rows, .source = set};
}

static void write_evicted(Writer *w, const void *source)
{
    const Checkpoints *set = source;
    const uint8_t *at = buf_head(&set->evicted);
    size_t n = set->evicted.size / sizeof(uint64_t);

    write_array(w, n);
    for (size_t i = 0; i < n; i++) {
        CheckpointId id;
        uint64_t number;

        memcpy(&number, at + i * sizeof(number), sizeof(number));
        checkpoint_id(id, number);
        write_text(w, id);
    }
}

Value checkpoints_say_evicted(const Checkpoints *set)
{
    return (Value){.write = write_evicted, .source = set};
}

void checkpoints_forget_evicted(Checkpoints *set)
{
    buf_clear(&set->evicted);
}
