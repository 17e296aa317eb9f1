/* Bytes of a hostile copy of the interpreter on its channel. It is no child of ours, and so never believed to
 * be a checkpoint. */
#include <sys/socket.h>

#include "guest/supervisor/checkpoint/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_taken(Checkpoints *set, pid_t pid)
{
    return false;
}

static void on_refused(Checkpoints *set, Checkpoint *checkpoint, uint64_t id, const char *why)
{
    abort();
}

static void on_kept(Checkpoints *set, Checkpoint *checkpoint)
{
    abort();
}

static void on_gone(Checkpoints *set, Checkpoint *checkpoint, const char *why)
{
    if (checkpoint->pid != 0 || set->kept != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(loop_freep) Loop *loop = NULL;
    Checkpoint *checkpoint;
    Checkpoints set;
    int end = -1;

    if (loop_new(&loop) < 0)
        abort();
    checkpoints_init(&set, loop);
    set.is_taken = is_taken;
    set.on_kept = on_kept;
    set.on_refused = on_refused;
    set.on_gone = on_gone;
    if (checkpoint_new(&checkpoint, &set, CHECKPOINT_BY_HAND, &end) < 0)
        abort();
    send(end, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(end);
    checkpoints_settle(&set, UINT64_MAX / 4);
    checkpoints_drop_pending(&set, "the input is over");
    checkpoints_deinit(&set);
    return 0;
}
