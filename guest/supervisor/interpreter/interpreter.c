#include "guest/supervisor/interpreter/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "guest/channel.h"
#include "guest/supervisor/process/footprint.h"
#include "guest/supervisor/interpreter/internal.h"
#include "proto/base/log.h"

#define READ_SIZE     (64u << 10)
#define COMPLAINT_MAX 2048u

static void on_stream_data(Streams *streams, unsigned number, const uint8_t *bytes, size_t n)
{
    Interpreter *interpreter = container_of(streams, Interpreter, streams);

    if (interpreter->step == INTERPRETER_READY)
        interpreter->on_output(interpreter, number, bytes, n);
    else if (number == STDERR_FILENO)
        buf_append(&interpreter->complaint, bytes, MIN(n, COMPLAINT_MAX - interpreter->complaint.size));
}

static void on_stream_late(Streams *streams, unsigned number, const uint8_t *bytes, size_t n)
{
    Interpreter *interpreter = container_of(streams, Interpreter, streams);

    interpreter->on_late(interpreter, number, bytes, n);
}

void interpreter_init(Interpreter *interpreter, Loop *loop)
{
    *interpreter = (Interpreter){.loop = loop, .channel = -1, .fds = {-1, -1}};
    interpreter->in.limit = LIMIT_GUEST_FRAME + READ_SIZE;
    streams_init(&interpreter->streams, loop, on_stream_data, on_stream_late);
}

static void release(Interpreter *interpreter)
{
    loop_timer_cancel(&interpreter->hangup);
    loop_file_remove(&interpreter->file);
    close_fd(&interpreter->channel);
    buf_deinit(&interpreter->in);
    buf_deinit(&interpreter->out);
    for (unsigned i = 0; i < STREAMS; i++)
        close_fd(&interpreter->fds[i]);
    streams_close(&interpreter->streams);
    interpreter->step = INTERPRETER_NONE;
    interpreter->closing = interpreter->asked = interpreter->divided = false;
    interpreter->pid = 0;
}

void interpreter_deinit(Interpreter *interpreter)
{
    release(interpreter);
    buf_deinit(&interpreter->complaint);
}

/* Starting */

typedef struct Ends {
    int channel, out, err, ring; /* they go with `restore` in this order; the last may be missing */
} Ends;

#define ENDS_NULL ((Ends){-1, -1, -1, -1})

static void ends_close(Ends *ends)
{
    close_fd(&ends->channel);
    close_fd(&ends->out);
    close_fd(&ends->err);
    close_fd(&ends->ring);
}

/* Opens the channel, the pipes and the rings. *ret gets the process's ends, the caller's to close. */
static int open_ends(Interpreter *interpreter, Ends *ret)
{
    Ends ends _cleanup_(ends_close) = ENDS_NULL;
    int pair[2], pipes[STREAMS] = {-1, -1};

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    interpreter->channel = pair[0];
    ends.channel = pair[1];
    /* Only this end: the interpreter uses blocking calls. */
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    int r = interpreter_listen(interpreter);
    if (r == 0)
        r = streams_open(&interpreter->streams, pipes);
    if (r < 0)
        return r;
    ends.out = pipes[0];
    ends.err = pipes[1];
    ends.ring = streams_share(&interpreter->streams);
    *ret = ends;
    ends = ENDS_NULL;
    return 0;
}

static void begin(Interpreter *interpreter, bool copied)
{
    interpreter->copied = copied;
    interpreter->step = INTERPRETER_STARTS;
    interpreter->closing = interpreter->reaped = interpreter->asked = interpreter->divided = false;
    interpreter->spawned = false;
    interpreter->listings = interpreter->preparations = (Inquiries){0};
    interpreter->pid = interpreter->sender = 0;
    interpreter->cpu_counted = interpreter->cpu = 0;
    interpreter->peak_memory = 0;
    interpreter->status = 0;
    buf_clear(&interpreter->complaint);
}

int interpreter_start(Interpreter *interpreter, const CommandLine *command_line,
                      const Environment *environment, uint64_t memory)
{
    Ends ends _cleanup_(ends_close) = ENDS_NULL;

    begin(interpreter, false);
    int r = open_ends(interpreter, &ends);
    if (r == 0) {
        SpawnPlan plan = {.command_line = command_line,
                          .environment = environment->entries,
                          .memory = memory,
                          .channel = ends.channel,
                          .out = ends.out,
                          .err = ends.err,
                          .ring = ends.ring};
        pid_t pid = spawn_interpreter(&plan);
        r = pid < 0 ? (int)pid : 0;
        interpreter->pid = MAX(pid, 0);
    }
    if (r < 0) {
        release(interpreter);
        return r;
    }
    log_info("interpreter started", "pid=%d", (int)interpreter->pid);
    return 0;
}

pid_t interpreter_become(const CommandLine *command_line, const char *kept, int end)
{
    int nothing _cleanup_(closep) = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const SpawnPlan plan = {.command_line = command_line,
                            .kept = kept,
                            .channel = end,
                            .out = nothing,
                            .err = nothing,
                            .ring = -1};

    return nothing < 0 ? -errno : spawn_interpreter(&plan);
}

static int send_restore(int frozen, const Ends *ends, uint64_t id, const MsgRestore *restore)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;
    int fds[CHANNEL_FDS] = {ends->channel, ends->out, ends->err, ends->ring};
    int r = channel_say(&out, MSG_RESTORE, id, MsgRestore, restore);

    if (r < 0)
        return r;
    r = channel_send(frozen, &out, fds, ends->ring < 0 ? CHANNEL_FDS - 1 : CHANNEL_FDS);
    /* Some bytes fit into every socket, unless nobody reads it. */
    return r == 0 ? -EPIPE : MIN(r, 0);
}

int interpreter_copy(Interpreter *interpreter, int frozen, uint64_t id, const MsgRestore *restore)
{
    Ends ends _cleanup_(ends_close) = ENDS_NULL;

    begin(interpreter, true);
    int r = open_ends(interpreter, &ends);
    if (r == 0 && setsockopt(interpreter->channel, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) < 0)
        r = -errno;
    if (r == 0)
        r = send_restore(frozen, &ends, id, restore);
    if (r < 0) {
        release(interpreter);
        return r;
    }
    return 0;
}

bool interpreter_is_alive(const Interpreter *interpreter)
{
    return interpreter->step != INTERPRETER_NONE && !interpreter->closing;
}

void interpreter_ready(Interpreter *interpreter)
{
    uint64_t peak;

    if (interpreter->copied) {
        interpreter->pid = interpreter->sender;
        setsockopt(interpreter->channel, SOL_SOCKET, SO_PASSCRED, &(int){0}, sizeof(int));
    }
    interpreter->step = INTERPRETER_READY;
    footprint_used(interpreter->pid, &interpreter->cpu_counted, &peak);
}

bool interpreter_checkpointed(Interpreter *interpreter)
{
    bool asked = interpreter->asked;

    interpreter->asked = false;
    return asked;
}

void interpreter_executed(Interpreter *interpreter, double cpu, bool spawned)
{
    interpreter->cpu_counted += cpu;
    interpreter->spawned = spawned;
}

void interpreter_interrupt(Interpreter *interpreter)
{
    /* An interpreter that has not made a group of its own is asked alone. */
    if (interpreter->pid > 0 && kill(-interpreter->pid, SIGINT) < 0)
        kill(interpreter->pid, SIGINT);
}

/* Ending */

bool interpreter_reaped(Interpreter *interpreter, pid_t pid, int status, const struct rusage *usage)
{
    if (pid != interpreter->pid)
        return false;
    interpreter->pid = 0;
    interpreter->reaped = true;
    interpreter->status = status;
    interpreter->cpu = (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
                       (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6 -
                       interpreter->cpu_counted;
    interpreter->cpu = MAX(interpreter->cpu, 0.0);
    interpreter->peak_memory = (uint64_t)usage->ru_maxrss * 1024;
    return true;
}

void interpreter_measure(Interpreter *interpreter)
{
    if (interpreter->pid <= 0)
        return;
    interpreter->cpu = interpreter->cpu_counted;
    footprint_used(interpreter->pid, &interpreter->cpu, &interpreter->peak_memory);
    interpreter->cpu = MAX(interpreter->cpu - interpreter->cpu_counted, 0.0);
}

void interpreter_close(Interpreter *interpreter)
{
    if (!interpreter_is_alive(interpreter))
        return;
    interpreter->closing = true;
    interpreter_take_last_messages(interpreter);
    streams_drain(&interpreter->streams);
    release(interpreter);
}
