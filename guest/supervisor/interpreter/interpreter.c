#include "guest/supervisor/interpreter/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "guest/channel.h"
#include "guest/ring.h"
#include "guest/supervisor/process/processes.h"
#include "guest/supervisor/process/spawn.h"
#include "proto/base/log.h"

#define READ_SIZE (64u << 10)

/* ---- messages ---- */

#define LAST_READS 64u /* much more than a socket's buffer holds */

static void fault(Interpreter *interpreter, const char *reason)
{
    log_warn("interpreter fault", "pid=%d reason=%s", (int)interpreter->pid, reason);
    interpreter->on_fault(interpreter, reason);
}

/* ---- sending ---- */

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

    if (interpreter->out.size > 0)
        return -EBUSY;
    r = channel_say(&out, MSG_CHECKPOINT, 0, MsgFreeze, &(MsgFreeze){.automatic = automatic});
    if (r < 0)
        return r;
    r = channel_send(interpreter->channel, &out, &end, 1);
    if (r <= 0) /* some bytes fit into every socket, unless nobody reads it */
        return r == 0 || r == -EAGAIN ? -EBUSY : r;
    return 0;
}

bool inquiries_answered(Inquiries *inquiries, uint64_t id)
{
    if (id != inquiries->answered + 1 || id > inquiries->asked)
        return false;
    inquiries->answered++;
    return true;
}

/* ---- receiving ---- */

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

static void hang_up(Interpreter *interpreter)
{
    loop_file_remove(&interpreter->file);
    interpreter->on_hangup(interpreter);
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

static int listen_to(Interpreter *interpreter)
{
    return loop_file_add(interpreter->loop, &interpreter->file, interpreter->channel, EPOLLIN,
                         on_channel_ready);
}

/* Reads what the socket's buffer holds. Whoever goes on writing is not the interpreter. */
static void take_last_messages(Interpreter *interpreter)
{
    Problem problem = PROBLEM_NULL;

    for (unsigned i = 0; i < LAST_READS && interpreter->file.loop && read_channel(interpreter) > 0; i++)
        if (take_messages(interpreter, &problem) < 0)
            return;
}

/* ---- its life ---- */

static void on_stream_data(Streams *streams, unsigned number, const uint8_t *bytes, size_t n)
{
    Interpreter *interpreter = container_of(streams, Interpreter, streams);

    interpreter->on_output(interpreter, number, bytes, n);
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

void interpreter_deinit(Interpreter *interpreter)
{
    loop_file_remove(&interpreter->file);
    close_fd(&interpreter->channel);
    buf_deinit(&interpreter->in);
    buf_deinit(&interpreter->out);
    for (unsigned i = 0; i < STREAMS; i++)
        close_fd(&interpreter->fds[i]);
    streams_close(&interpreter->streams);
    interpreter->pid = 0;
}

/* ---- starting ---- */

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
    int r = listen_to(interpreter);
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

static void begin(Interpreter *interpreter)
{
    interpreter->spawned = false;
    interpreter->listings = interpreter->moves = interpreter->preparations = (Inquiries){0};
    interpreter->pid = interpreter->sender = 0;
    interpreter->cpu_counted = interpreter->cpu = 0;
    interpreter->peak_memory = 0;
    interpreter->status = 0;
}

/* An interpreter that has a library beside it is Python's own program: the library takes over before its
 * main() (guest/interpreter/launch). false: it has none. */
static bool find_library(char ret[static LIMIT_PATH], const char *interpreter)
{
    return snprintf(ret, LIMIT_PATH, "%s.so", interpreter) < (int)LIMIT_PATH && access(ret, F_OK) == 0;
}

static pid_t spawn_interpreter(const CommandLine *command_line, const Environment *environment,
                               uint64_t memory, const Ends *ends)
{
    char library[LIMIT_PATH], bytes[24];
    char *argv[] = {(char *)command_line->interpreter, bytes, NULL};
    SpawnSpec spec = {.command_line = command_line,
                      .argv = argv,
                      .environment = environment->entries,
                      .directory = command_line->directory,
                      .fds = {-1, ends->out, ends->err, [CHANNEL_FD] = ends->channel, [RING_FD] = ends->ring},
                      .fd_count = ends->ring < 0 ? RING_FD : RING_FD + 1};

    snprintf(bytes, sizeof(bytes), "%" PRIu64, memory);
    if (find_library(library, command_line->interpreter))
        spec.preload = library;
    return spawn(&spec);
}

int interpreter_start(Interpreter *interpreter, const CommandLine *command_line,
                      const Environment *environment, uint64_t memory)
{
    Ends ends _cleanup_(ends_close) = ENDS_NULL;

    begin(interpreter);
    int r = open_ends(interpreter, &ends);
    if (r == 0) {
        pid_t pid = spawn_interpreter(command_line, environment, memory, &ends);

        r = pid < 0 ? (int)pid : 0;
        interpreter->pid = MAX(pid, 0);
    }
    if (r < 0) {
        interpreter_deinit(interpreter);
        return r;
    }
    log_info("interpreter started", "pid=%d", (int)interpreter->pid);
    return 0;
}

/* The loader is beside the interpreter. */
pid_t interpreter_become(const CommandLine *command_line, const KeptMemory *memory, int end)
{
    char loader[LIMIT_PATH];
    char *file = memory->passed < 0 ? (char *)memory->file : NULL;
    char *argv[] = {loader, file, NULL}, *nothing[] = {NULL};
    const SpawnSpec spec = {.command_line = command_line,
                            .argv = argv,
                            .environment = nothing,
                            .directory = command_line->directory,
                            .fds = {-1, -1, -1, end, memory->passed, memory->image},
                            .fd_count = 6};

    if (snprintf(loader, sizeof(loader), "%s-loader", command_line->interpreter) >= (int)sizeof(loader))
        return -ENAMETOOLONG;
    return spawn(&spec);
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

    begin(interpreter);
    int r = open_ends(interpreter, &ends);
    if (r == 0 && setsockopt(interpreter->channel, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) < 0)
        r = -errno;
    if (r == 0)
        r = send_restore(frozen, &ends, id, restore);
    if (r < 0) {
        interpreter_deinit(interpreter);
        return r;
    }
    return 0;
}

void interpreter_ready(Interpreter *interpreter)
{
    uint64_t peak;

    if (interpreter->pid == 0) {
        interpreter->pid = interpreter->sender;
        setsockopt(interpreter->channel, SOL_SOCKET, SO_PASSCRED, &(int){0}, sizeof(int));
    }
    footprint_used(interpreter->pid, &interpreter->cpu_counted, &peak);
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

/* ---- ending ---- */

bool interpreter_reaped(Interpreter *interpreter, pid_t pid, int status, const struct rusage *usage)
{
    if (pid != interpreter->pid)
        return false;
    interpreter->pid = -1;
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
    take_last_messages(interpreter);
    streams_drain(&interpreter->streams);
    interpreter_deinit(interpreter);
}
