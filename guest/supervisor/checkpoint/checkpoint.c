#include "guest/supervisor/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
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
    checkpoint->number = kind == CHECKPOINT_PRISTINE ? 0 : ++set->last_number;
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
        set->kept -= checkpoint->kind != CHECKPOINT_PRISTINE;
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

/* ---- messages of a copy ---- */

/* A child of ours that is nothing else. */
static bool may_be(const Checkpoint *checkpoint, pid_t sender)
{
    Checkpoints *set = checkpoint->set;
    const Checkpoint *known = checkpoints_find_pid(set, sender);

    return processes_is_child(sender) && !set->is_taken(set, sender) &&
           (checkpoint->state == CHECKPOINT_BECOMING ? known == checkpoint : !known);
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
    set->kept += checkpoint->kind != CHECKPOINT_PRISTINE;
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
    if (checkpoint->state == CHECKPOINT_BECOMING)
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
    } else if (checkpoint->state != CHECKPOINT_ASKED) {
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
    checkpoint->state = CHECKPOINT_BECOMING;
    return loop_timer_set(checkpoint->set->loop, &checkpoint->limit, clock_now() + limit, on_limit_due);
}

int checkpoint_save(Checkpoint *checkpoint, int place, bool shares)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;
    uint64_t id = shares ? CHANNEL_KEEPS_SHARED : CHANNEL_KEEPS_ALL;
    int r = channel_say(&out, MSG_SAVE, id, MsgNothing, &(MsgNothing){0});

    if (r == 0)
        r = channel_send(checkpoint->channel, &out, &place, 1);
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

/* ---- all of them ---- */

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

static bool is_pristine(const Checkpoint *checkpoint, const void *unused)
{
    return checkpoint->kind == CHECKPOINT_PRISTINE;
}

static bool is_listed(const Checkpoint *checkpoint)
{
    return !checkpoint_is_pending(checkpoint) && checkpoint->kind != CHECKPOINT_PRISTINE;
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

Checkpoint *checkpoints_pristine(const Checkpoints *set)
{
    return first_where(set, is_pristine, NULL);
}

Checkpoint *checkpoints_find(const Checkpoints *set, Text id_or_name)
{
    return first_where(set, is_called, &id_or_name);
}

/* ---- listing ---- */

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

/* ---- what they hold ---- */

/* Seconds without measuring that follow on each second of it, unless someone asks. */
#define MEASURE_RATIO 50u

/* The memory of a dropped checkpoint counts as free after this. */
#define END_LIMIT NSEC_PER_SEC

/* Memory that copies alone hold, as far as it can be told. The sum of private pages is too small, as a page
 * that two of them share is private to neither. The sum of shares, less all that living processes have, is
 * exact while one of those lives, and never too much. */
static uint64_t held(Checkpoints *set, uint64_t private, uint64_t share)
{
    const Checkpoint *pristine = checkpoints_pristine(set);
    Footprint living = {0};

    set->add_living(set, &living);
    if (pristine && pristine->pid > 0)
        footprint_add_opened(&living, pristine->memory);
    share += living.share;
    return MAX(private, share > living.all ? share - living.all : 0);
}

uint64_t checkpoints_measure(Checkpoints *set)
{
    uint64_t begun = clock_now(), ended, private = 0, share = 0;
    Checkpoint *checkpoint;

    list_foreach (checkpoint, &set->all, Checkpoint, link) {
        Footprint footprint = {0};

        if (checkpoint->kind == CHECKPOINT_PRISTINE || checkpoint->pid <= 0 ||
            footprint_add_opened(&footprint, checkpoint->memory) < 0)
            continue;
        checkpoint->private_bytes = footprint.private;
        private += footprint.private;
        share += footprint.share;
    }
    private = held(set, private, share);
    ended = clock_now();
    set->next_measure = ended + MEASURE_RATIO * (ended - begun);
    return private;
}

static Checkpoint *oldest(const Checkpoints *set, const Checkpoint *except, CheckpointKind kind)
{
    Checkpoint *checkpoint;

    list_foreach (checkpoint, (List *)&set->all, Checkpoint, link)
        if (!checkpoint_is_pending(checkpoint) && checkpoint != except && checkpoint->kind == kind)
            return checkpoint;
    return NULL;
}

static bool evict(Checkpoints *set, const Checkpoint *newest, const char *why)
{
    Checkpoint *checkpoint = oldest(set, newest, CHECKPOINT_AUTOMATIC);
    pid_t pid;

    if (!checkpoint)
        checkpoint = oldest(set, newest, CHECKPOINT_BY_HAND);
    if (!checkpoint)
        return false;
    pid = checkpoint->pid;
    buf_append(&set->evicted, &checkpoint->number, sizeof(checkpoint->number));
    checkpoint_drop(checkpoint, why);
    processes_await_end(pid, END_LIMIT);
    return true;
}

void checkpoints_make_room(Checkpoints *set, const Checkpoint *newest, bool now)
{
    bool more = true;

    while (more && set->kept > LIMIT_CHECKPOINTS)
        more = evict(set, newest, "there were more checkpoints than a session may have");
    if (set->budget == 0 || set->kept < 2 || (!now && clock_now() < set->next_measure))
        return;
    while (more && checkpoints_measure(set) > set->budget)
        more = evict(set, newest, "the checkpoints held more memory than they may");
}
