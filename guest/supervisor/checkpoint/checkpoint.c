#include "guest/supervisor/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "guest/channel.h"
#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The interpreter makes the copy before it does anything else. A copy that takes longer does not come. */
#define PENDING_LIMIT (5 * NSEC_PER_SEC)

/* A copy has nothing to say but one or two short words. */
#define MESSAGE_MAXIMUM 4096u

#define NEVER_READY "the copy of the interpreter ended before it was ready"

static void on_channel_ready(LoopFile *file, uint32_t events);
static void on_limit_due(LoopTimer *timer);

static void free_checkpoint(Checkpoint *checkpoint)
{
    loop_timer_cancel(&checkpoint->limit);
    loop_file_remove(&checkpoint->file);
    close_fd(&checkpoint->channel);
    close_fd(&checkpoint->memory);
    buf_deinit(&checkpoint->in);
    list_remove(&checkpoint->link);
    free(checkpoint);
}

void checkpoints_init(Checkpoints *set, Loop *loop)
{
    *set = (Checkpoints){.loop = loop};
    list_init(&set->all);
}

void checkpoints_deinit(Checkpoints *set)
{
    Checkpoint *checkpoint;

    if (!set->loop)
        return;
    list_foreach (checkpoint, &set->all, Checkpoint, link)
        free_checkpoint(checkpoint);
    buf_deinit(&set->evicted);
}

static int open_channel(Checkpoint *checkpoint, int *ret_end)
{
    Loop *loop = checkpoint->set->loop;
    int ends[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    checkpoint->channel = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    r = setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) < 0 ? -errno : 0;
    if (r == 0)
        r = loop_file_add(loop, &checkpoint->file, ends[0], EPOLLIN, on_channel_ready);
    if (r == 0)
        r = loop_timer_set(loop, &checkpoint->limit, clock_now() + PENDING_LIMIT, on_limit_due);
    if (r < 0) {
        close(ends[1]);
        return r;
    }
    *ret_end = ends[1];
    return 0;
}

int checkpoint_new(Checkpoint **ret, Checkpoints *set, CheckpointKind kind, int *ret_end)
{
    Checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));

    if (!checkpoint)
        return -ENOMEM;
    list_init(&checkpoint->link);
    checkpoint->set = set;
    checkpoint->kind = kind;
    checkpoint->channel = -1;
    checkpoint->memory = -1;
    checkpoint->in.limit = 2 * MESSAGE_MAXIMUM;
    checkpoint->created = clock_unix();

    int r = open_channel(checkpoint, ret_end);
    if (r < 0) {
        free_checkpoint(checkpoint);
        return r;
    }
    checkpoint->number = kind == CHECKPOINT_BIRTH ? 0 : ++set->last_number;
    list_append(&set->all, &checkpoint->link);
    *ret = checkpoint;
    return 0;
}

/* Gives the children of a checkpoint that goes to its parent. */
static void leave_tree(Checkpoint *checkpoint)
{
    Checkpoint *other;

    list_foreach (other, &checkpoint->set->all, Checkpoint, link) {
        if (other->parent != checkpoint)
            continue;
        other->parent = checkpoint->parent;
        other->calls += checkpoint->calls;
    }
}

void checkpoint_drop(Checkpoint *checkpoint, const char *why)
{
    Checkpoints *set = checkpoint->set;

    if (why)
        log_warn("checkpoint lost", "id=c%" PRIu64 " pid=%d reason=%s", checkpoint->number,
                 (int)checkpoint->pid, why);
    if (!checkpoint_is_pending(checkpoint))
        set->kept -= checkpoint->kind != CHECKPOINT_BIRTH;
    if (checkpoint->pid > 0)
        kill(checkpoint->pid, SIGKILL);
    leave_tree(checkpoint);
    list_remove(&checkpoint->link);
    set->on_gone(set, checkpoint, why);
    free_checkpoint(checkpoint);
}

void checkpoint_reaped(Checkpoint *checkpoint)
{
    checkpoint->pid = 0;
    if (!checkpoint_is_pending(checkpoint)) /* its channel tells why it did not become one */
        checkpoint->state = CHECKPOINT_ENDED;
}

/* What it says */

/* A child of ours that is nothing else. */
static bool may_be(const Checkpoint *checkpoint, pid_t sender)
{
    Checkpoints *set = checkpoint->set;
    const Checkpoint *known = checkpoints_find_pid(set, sender);

    return processes_is_child(sender) && !set->is_taken(set, sender) &&
           (checkpoint->becomes ? known == checkpoint : !known);
}

static int take_frozen(Checkpoint *checkpoint, pid_t sender, Problem *problem)
{
    Checkpoints *set = checkpoint->set;

    if (!checkpoint_is_pending(checkpoint))
        return problem_set(problem, ERR_BAD_REQUEST, "it said `frozen` twice");
    if (!may_be(checkpoint, sender))
        return problem_set(problem, ERR_BAD_REQUEST, "process %d is no copy of the interpreter", (int)sender);
    loop_timer_cancel(&checkpoint->limit);
    checkpoint->pid = sender;
    checkpoint->state = CHECKPOINT_KEPT;
    set->kept += checkpoint->kind != CHECKPOINT_BIRTH;
    set->on_kept(set, checkpoint);
    return 0;
}

static int take_refusal(Checkpoint *checkpoint, const Message *message, Problem *problem)
{
    Checkpoints *set = checkpoint->set;
    MsgCheckpointed refusal;
    char why[LIMIT_NOTE + 1];
    int r = body_decode(&refusal, MsgCheckpointed, &message->body, problem);

    if (r < 0)
        return r;
    if (!refusal.error.data)
        return problem_set(problem, ERR_BAD_REQUEST, "it refused without saying why");
    if (checkpoint_is_pending(checkpoint) && checkpoint->becomes)
        return problem_set(problem, ERR_CHECKPOINT_FAILED, "%.*s", (int)refusal.error.size,
                           refusal.error.data);
    if (checkpoint_is_pending(checkpoint))
        return problem_set(problem, ERR_BAD_REQUEST, "it refused before it was frozen");
    if (message->id == 0 || message->id > checkpoint->restores)
        return problem_set(problem, ERR_BAD_REQUEST, "it refused what nobody had asked it for");
    memcpy(why, refusal.error.data, refusal.error.size);
    why[refusal.error.size] = '\0';
    set->on_refused(set, checkpoint, message->id, why);
    return 0;
}

static int take_saved(Checkpoint *checkpoint, const Message *message, Problem *problem)
{
    MsgSavedCell said;
    int r = body_decode(&said, MsgSavedCell, &message->body, problem);

    if (r < 0)
        return r;
    if (!checkpoint->saves)
        return problem_set(problem, ERR_BAD_REQUEST, "it saved what nobody had asked it for");
    if (said.error.data)
        log_info("memory not kept", "id=c%" PRIu64 " reason=%.*s", checkpoint->number, (int)said.error.size,
                 said.error.data);
    checkpoint->saves = false;
    checkpoint->saved = !said.error.data;
    checkpoint->set->on_saved(checkpoint->set, checkpoint);
    return 0;
}

static int take_message(Checkpoint *checkpoint, const Message *message, pid_t sender, Problem *problem)
{
    switch (message->kind) {
    case MSG_FROZEN:
        return take_frozen(checkpoint, sender, problem);
    case MSG_CHECKPOINTED:
        return take_refusal(checkpoint, message, problem);
    case MSG_SAVE:
        return take_saved(checkpoint, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s",
                           message_name(message->kind));
    }
}

/* Negative with a Problem when the copy cannot be trusted any more. */
static int take_messages(Checkpoint *checkpoint, pid_t sender, Problem *problem)
{
    ChannelFrame frame;
    int r;

    while ((r = channel_next(&checkpoint->in, MESSAGE_MAXIMUM, &frame)) > 0) {
        Message message = MESSAGE_NULL;

        r = message_decode(&message, frame.data, frame.size, problem);
        if (r == 0)
            r = take_message(checkpoint, &message, sender, problem);
        message_deinit(&message);
        if (r < 0)
            return r;
        buf_consume(&checkpoint->in, frame.used);
    }
    return r < 0 ? problem_set(problem, ERR_TOO_LARGE, "a message of more than %u bytes", MESSAGE_MAXIMUM)
                 : 0;
}

static void hang_up(Checkpoint *checkpoint)
{
    if (!checkpoint_is_pending(checkpoint)) {
        checkpoint_drop(checkpoint, CHECKPOINT_LOST);
    } else if (checkpoint->state == CHECKPOINT_ANSWERED) {
        checkpoint_drop(checkpoint, NEVER_READY);
    } else {
        loop_file_remove(&checkpoint->file);
        close_fd(&checkpoint->channel);
        checkpoint->state = CHECKPOINT_SILENT;
    }
}

void checkpoint_answered(Checkpoint *checkpoint)
{
    if (checkpoint->state == CHECKPOINT_ASKED)
        checkpoint->state = CHECKPOINT_ANSWERED;
    else if (checkpoint->state == CHECKPOINT_SILENT)
        checkpoint_drop(checkpoint, NEVER_READY);
}

int checkpoint_becomes(Checkpoint *checkpoint, pid_t pid, uint64_t limit)
{
    checkpoint->pid = pid;
    checkpoint->state = CHECKPOINT_ANSWERED;
    checkpoint->becomes = true;
    return loop_timer_set(checkpoint->set->loop, &checkpoint->limit, clock_now() + limit, on_limit_due);
}

int checkpoint_save(Checkpoint *checkpoint, int directory)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(&out, MSG_SAVE, 1, MsgNothing, &(MsgNothing){0});

    if (r == 0)
        r = channel_send(checkpoint->channel, &out, &directory, 1);
    checkpoint->saves = r > 0;
    checkpoint->saved = false;
    return r == 0 ? -EPIPE : MIN(r, 0);
}

static void take_memory(Checkpoint *checkpoint, int fd, pid_t sender)
{
    if (fd < 0)
        return;
    if (checkpoint->memory < 0 && footprint_is_opened(fd, sender))
        checkpoint->memory = fd;
    else
        channel_discard(fd);
}

/* May drop it. */
static void read_channel(Checkpoint *checkpoint)
{
    Problem problem = PROBLEM_NULL;
    pid_t sender = 0;
    int fd = -1;
    ssize_t n = channel_read(checkpoint->channel, &checkpoint->in, MESSAGE_MAXIMUM, &sender, &fd);

    take_memory(checkpoint, fd, sender);
    if (n == -EAGAIN)
        return;
    if (n <= 0)
        hang_up(checkpoint);
    else if (take_messages(checkpoint, sender, &problem) < 0)
        checkpoint_drop(checkpoint, problem.text);
}

static void on_channel_ready(LoopFile *file, uint32_t events)
{
    read_channel(container_of(file, Checkpoint, file));
}

static void on_limit_due(LoopTimer *timer)
{
    checkpoint_drop(container_of(timer, Checkpoint, limit),
                    "the copy of the interpreter was not ready in time");
}

static Checkpoint *find_pending(const Checkpoints *set, struct pollfd *polled, size_t n)
{
    Checkpoint *checkpoint;

    list_foreach (checkpoint, (List *)&set->all, Checkpoint, link)
        for (size_t i = 0; i < n; i++)
            if (checkpoint->channel == polled[i].fd && polled[i].revents)
                return checkpoint;
    return NULL;
}

static size_t collect_pending(const Checkpoints *set, struct pollfd *ret, size_t maximum)
{
    Checkpoint *checkpoint;
    size_t n = 0;

    list_foreach (checkpoint, (List *)&set->all, Checkpoint, link)
        if (checkpoint_is_pending(checkpoint) && checkpoint->channel >= 0 && n < maximum)
            ret[n++] = (struct pollfd){.fd = checkpoint->channel, .events = POLLIN};
    return n;
}

void checkpoints_settle(Checkpoints *set, uint64_t limit)
{
    struct pollfd polled[LIMIT_BRANCHES + 1];
    uint64_t end = 0;
    size_t n;

    while ((n = collect_pending(set, polled, ARRAY_SIZE(polled))) > 0) {
        uint64_t now = clock_now();

        end = end ? end : now + limit;
        if (now >= end)
            return;

        struct timespec left = clock_timespec(end - now);
        if (ppoll(polled, n, &left, NULL) < 0 && errno != EINTR)
            return;

        Checkpoint *ready = find_pending(set, polled, n);
        if (ready)
            read_channel(ready);
    }
}
