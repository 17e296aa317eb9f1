#include "guest/supervisor/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "guest/channel.h"
#include "guest/supervisor/processes.h"
#include "guest/supervisor/spawn.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define READ_SIZE     (64u << 10)
#define COMPLAINT_MAX 2048u

/* Processes that do not die within this are stuck in the kernel; the reply cannot wait for them. */
#define END_LIMIT (700 * NSEC_PER_MSEC)

/* A process that ends closes its channel shortly before its parent is told. */
#define HANGUP_LIMIT (200 * NSEC_PER_MSEC)

static void on_channel_ready(LoopFile *file, uint32_t events);

static void on_stream_data(Streams *streams, unsigned number, const uint8_t *bytes, size_t n)
{
    Interpreter *interpreter = container_of(streams, Interpreter, streams);

    if (interpreter->ready)
        interpreter->on_output(interpreter, number, bytes, n);
    else if (number == STDERR_FILENO)
        buf_append(&interpreter->complaint, bytes, MIN(n, COMPLAINT_MAX - interpreter->complaint.size));
}

void interpreter_init(Interpreter *interpreter, Loop *loop)
{
    *interpreter = (Interpreter){.loop = loop, .channel = -1, .fds = {-1, -1}};
    interpreter->in.limit = LIMIT_GUEST_FRAME + READ_SIZE;
    streams_init(&interpreter->streams, loop, on_stream_data);
}

static void fds_close(Interpreter *interpreter)
{
    for (unsigned i = 0; i < STREAMS; i++)
        close_fd(&interpreter->fds[i]);
}

static void channel_close(Interpreter *interpreter)
{
    loop_file_remove(&interpreter->file);
    close_fd(&interpreter->channel);
    buf_deinit(&interpreter->in);
    buf_deinit(&interpreter->out);
    fds_close(interpreter);
}

void interpreter_deinit(Interpreter *interpreter)
{
    loop_timer_cancel(&interpreter->hangup);
    channel_close(interpreter);
    streams_close(&interpreter->streams);
    buf_deinit(&interpreter->complaint);
}

static void fault(Interpreter *interpreter, const char *reason)
{
    log_warn("interpreter fault", "pid=%d reason=%s", (int)interpreter->pid, reason);
    interpreter->on_fault(interpreter, reason);
}

/* Starting */

static int spawn(Interpreter *interpreter, const Options *options, const Environment *environment,
                 int channel)
{
    _cleanup_(closep) int out = -1, err = -1;
    int ends[STREAMS];
    int r = streams_open(&interpreter->streams, ends);

    if (r < 0)
        return r;
    out = ends[0];
    err = ends[1];

    SpawnPlan plan = {
        .options = options, .environment = environment->entries, .channel = channel, .out = out, .err = err};
    pid_t pid = spawn_interpreter(&plan);
    if (pid < 0)
        return pid;
    interpreter->pid = pid;
    return 0;
}

int interpreter_start(Interpreter *interpreter, const Options *options, const Environment *environment)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    /* Only this end: the interpreter uses blocking calls. */
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    interpreter->channel = ends[0];
    interpreter->ready = interpreter->left_children = false;
    interpreter->cpu_counted = 0;
    interpreter->status = 0;
    interpreter->usage = (struct rusage){0};
    buf_clear(&interpreter->complaint);

    int r = loop_file_add(interpreter->loop, &interpreter->file, ends[0], EPOLLIN, on_channel_ready);
    if (r == 0)
        r = spawn(interpreter, options, environment, ends[1]);
    close(ends[1]);
    if (r < 0) {
        channel_close(interpreter);
        streams_close(&interpreter->streams);
        return r;
    }
    interpreter->alive = true;
    log_info("interpreter started", "pid=%d", (int)interpreter->pid);
    return 0;
}

/* Sending */

static int send_out(Interpreter *interpreter)
{
    const int *fds = interpreter->fds[0] >= 0 ? interpreter->fds : NULL;
    int r;

    if (!interpreter->ready || !interpreter->file.loop || interpreter->out.size == 0)
        return 0;
    r = channel_send(interpreter->channel, &interpreter->out, fds);
    if (r < 0 && r != -EAGAIN)
        return r;
    if (r >= 0)
        fds_close(interpreter);
    return loop_file_change(&interpreter->file, EPOLLIN | (r == 1 ? 0 : EPOLLOUT));
}

void interpreter_ready(Interpreter *interpreter)
{
    clockid_t id;
    struct timespec used;

    interpreter->ready = true;
    if (clock_getcpuclockid(interpreter->pid, &id) == 0 && clock_gettime(id, &used) == 0)
        interpreter->cpu_counted = (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
    /* An error here means that it is gone, of which we hear by itself. */
    send_out(interpreter);
}

int interpreter_execute(Interpreter *interpreter, Text code, Text run_id, uint64_t execution_count)
{
    size_t mark = 0;
    Writer w;
    int r = 0;

    if (interpreter->left_children) {
        r = streams_open(&interpreter->streams, interpreter->fds);
        interpreter->left_children = false;
    }
    if (r == 0)
        r = channel_frame_begin(&interpreter->out, &mark);
    if (r < 0)
        return r;
    writer_message(&w, &interpreter->out, MSG_EXECUTE, execution_count, 3);
    write_key(&w, "code");
    write_text_n(&w, code.data, code.size);
    write_key(&w, "run_id");
    write_text_n(&w, run_id.data, run_id.size);
    write_key(&w, "execution_count");
    write_uint(&w, execution_count);
    r = writer_finish(&w);
    if (r < 0) {
        channel_frame_abort(&interpreter->out, mark);
        return r;
    }
    channel_frame_end(&interpreter->out, mark);
    send_out(interpreter); /* an error means that it is gone, of which we hear by itself */
    return 0;
}

void interpreter_forget(Interpreter *interpreter)
{
    buf_clear(&interpreter->out);
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
    n = buf_read_fd(&interpreter->in, interpreter->channel, READ_SIZE);
    if (n > 0 && take_messages(interpreter, &problem) < 0)
        fault(interpreter, problem.text);
    else if (n == -ENOMEM || n == -ENOBUFS)
        fault(interpreter, strerror((int)-n));
    else if (n <= 0 && n != -EAGAIN)
        hang_up(interpreter);
}

void interpreter_interrupt(Interpreter *interpreter)
{
    if (interpreter->pid > 0)
        kill(-interpreter->pid, SIGINT);
}

/* Ending */

bool interpreter_reaped(Interpreter *interpreter, pid_t pid, int status, const struct rusage *usage)
{
    if (pid != interpreter->pid)
        return false;
    interpreter->pid = 0;
    interpreter->status = status;
    interpreter->usage = *usage;
    return true;
}

static void on_reaped(void *context, pid_t pid, int status, const struct rusage *usage)
{
    interpreter_reaped(context, pid, status, usage);
}

/* What it sent before it ended. Nobody writes any more, so the socket's buffer is all there can be. */
static void take_last_messages(Interpreter *interpreter)
{
    Problem problem = PROBLEM_NULL;

    while (interpreter->file.loop && buf_read_fd(&interpreter->in, interpreter->channel, READ_SIZE) > 0)
        if (take_messages(interpreter, &problem) < 0)
            return;
}

void interpreter_end(Interpreter *interpreter)
{
    if (!interpreter->alive)
        return;
    interpreter->alive = false;
    loop_timer_cancel(&interpreter->hangup);
    if (processes_end_all(END_LIMIT, on_reaped, interpreter) < 0)
        log_error("processes do not die", "interpreter=%d", (int)interpreter->pid);
    if (interpreter->pid != 0) {
        interpreter->pid = 0;
        interpreter->status = SIGKILL;
    }
    take_last_messages(interpreter);
    streams_drain(&interpreter->streams);
    channel_close(interpreter);
    streams_close(&interpreter->streams);
    interpreter->ready = false;
}
