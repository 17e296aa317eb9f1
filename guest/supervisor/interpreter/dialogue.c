/* What is said to the interpreter, and by it. */
#include <errno.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/interpreter/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define READ_SIZE  (64u << 10)
#define LAST_READS 64u /* much more than a socket's buffer holds */

/* The time between the end of the channel and the end of the process: as much as the kernel needs to free its
 * memory, of which there is much when it was killed for that. */
#define HANGUP_LIMIT (2 * NSEC_PER_SEC)

static void fault(Interpreter *interpreter, const char *reason)
{
    log_warn("interpreter fault", "pid=%d reason=%s", (int)interpreter->pid, reason);
    interpreter->on_fault(interpreter, reason);
}

/* Sending */

static void send_out(Interpreter *interpreter)
{
    size_t fds = interpreter->fds[0] >= 0 ? STREAMS : 0;
    int r;

    if (!interpreter->file.loop || interpreter->out.size == 0)
        return;
    r = channel_send(interpreter->channel, &interpreter->out, interpreter->fds, fds);
    if (r < 0 && r != -EAGAIN)
        return; /* it is gone */
    if (r >= 0)
        for (unsigned i = 0; i < STREAMS; i++)
            close_fd(&interpreter->fds[i]);
    interpreter->divided = r != 1;
    loop_file_change(&interpreter->file, EPOLLIN | (r == 1 ? 0 : EPOLLOUT));
}

/* Takes what is in the frame. */
static int append_out(Interpreter *interpreter, Buf *frame)
{
    Buf *out = &interpreter->out;
    Buf before = *out;
    int r = 0;

    if (before.size > 0) {
        r = buf_append(out, buf_head(frame), frame->size);
    } else {
        *out = *frame;
        *frame = before;
    }
    if (r == 0)
        buf_deinit(frame);
    return r;
}

int interpreter_send(Interpreter *interpreter, Buf *frame)
{
    int r = 0;

    if (interpreter->spawned) {
        r = streams_open(&interpreter->streams, interpreter->fds);
        interpreter->spawned = false;
    }
    if (r == 0)
        r = append_out(interpreter, frame);
    if (r < 0)
        return r;
    send_out(interpreter);
    return 0;
}

int interpreter_ask_checkpoint(Interpreter *interpreter, int end, bool automatic)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    if (interpreter->asked || interpreter->divided)
        return -EBUSY;
    r = channel_say(&out, MSG_CHECKPOINT, 0, MsgFreeze, &(MsgFreeze){.automatic = automatic});
    if (r < 0)
        return r;
    r = channel_send(interpreter->channel, &out, &end, 1);
    if (r <= 0) /* some bytes fit into every socket, unless nobody reads it */
        return r == 0 || r == -EAGAIN ? -EBUSY : r;
    interpreter->asked = true;
    return 0;
}

bool inquiries_answered(Inquiries *inquiries, uint64_t id)
{
    if (id != inquiries->answered + 1 || id > inquiries->asked)
        return false;
    inquiries->answered++;
    return true;
}

/* Receiving */

static int take_messages(Interpreter *interpreter, Problem *problem)
{
    ChannelFrame frame;
    int r;

    while ((r = channel_next(&interpreter->in, LIMIT_GUEST_FRAME, &frame)) > 0) {
        Message message = MESSAGE_NULL;

        r = message_decode(&message, frame.data, frame.size, problem);
        if (r == 0)
            r = interpreter->on_message(interpreter, &message, problem);
        message_deinit(&message);
        if (r < 0)
            return r;
        buf_consume(&interpreter->in, frame.used);
    }
    if (r < 0)
        return problem_set(problem, ERR_TOO_LARGE, "a message over %u MiB", LIMIT_GUEST_FRAME >> 20);
    return 0;
}

static ssize_t read_channel(Interpreter *interpreter)
{
    return channel_read(interpreter->channel, &interpreter->in, READ_SIZE, &interpreter->sender, NULL);
}

static void on_hangup_due(LoopTimer *timer)
{
    fault(container_of(timer, Interpreter, hangup), "it closed its channel or replaced its process");
}

static void hang_up(Interpreter *interpreter)
{
    loop_file_remove(&interpreter->file);
    if (loop_timer_set(interpreter->loop, &interpreter->hangup, clock_now() + HANGUP_LIMIT, on_hangup_due) <
        0)
        fault(interpreter, strerror(ENOMEM));
}

static void on_channel_ready(LoopFile *file, uint32_t events)
{
    Interpreter *interpreter = container_of(file, Interpreter, file);
    Problem problem = PROBLEM_NULL;
    ssize_t n;

    if (events & EPOLLOUT)
        send_out(interpreter);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    n = read_channel(interpreter);
    if (n > 0 && take_messages(interpreter, &problem) < 0)
        fault(interpreter, problem.text);
    else if (n == -ENOMEM || n == -ENOBUFS)
        fault(interpreter, strerror((int)-n));
    else if (n <= 0 && n != -EAGAIN)
        hang_up(interpreter);
}

int interpreter_listen(Interpreter *interpreter)
{
    return loop_file_add(interpreter->loop, &interpreter->file, interpreter->channel, EPOLLIN,
                         on_channel_ready);
}

/* Reads what the socket's buffer holds. Whoever goes on writing is not the interpreter. */
void interpreter_take_last_messages(Interpreter *interpreter)
{
    Problem problem = PROBLEM_NULL;

    for (unsigned i = 0; i < LAST_READS && interpreter->file.loop && read_channel(interpreter) > 0; i++)
        if (take_messages(interpreter, &problem) < 0)
            return;
}
