#include "guest/supervisor/services/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "guest/channel.h"
#include "guest/supervisor/process/spawn.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define READ_SIZE (64u << 10)

/* A reply with a piece of a file, or with a page of a list. */
#define ANSWER_MAX (4u << 20)

/* No question takes long; one that does has met a process that was stopped. */
#define ANSWER_LIMIT (30 * NSEC_PER_SEC)

void files_process_init(FilesProcess *files, Loop *loop, const CommandLine *command_line, Link *link,
                        pid_t *pid)
{
    *files =
        (FilesProcess){.loop = loop, .command_line = command_line, .link = link, .pid = pid, .channel = -1};
    files->in.limit = ANSWER_MAX + READ_SIZE;
}

/* ---- questions ---- */

static FileQuestion *find_question(FilesProcess *files, uint64_t id)
{
    for (size_t i = 0; i < ARRAY_SIZE(files->questions); i++)
        if (files->questions[i].id == id)
            return &files->questions[i];
    return NULL;
}

static void tell_failed(FilesProcess *files, uint64_t id, int error)
{
    link_say(files->link, MSG_FILE_FAILED, id, MsgFileFailed, &(MsgFileFailed){.error = (uint64_t)-error});
}

static void fail_all(FilesProcess *files)
{
    for (size_t i = 0; i < ARRAY_SIZE(files->questions); i++) {
        FileQuestion *question = &files->questions[i];

        if (question->id && question->told)
            tell_failed(files, question->id, -EIO);
        *question = (FileQuestion){0};
    }
}

void files_process_on_controller_lost(FilesProcess *files)
{
    for (size_t i = 0; i < ARRAY_SIZE(files->questions); i++)
        files->questions[i].told = false;
}

/* ---- its life ---- */

static void release(FilesProcess *files)
{
    loop_timer_cancel(&files->limit);
    loop_file_remove(&files->file);
    close_fd(&files->channel);
    buf_deinit(&files->in);
    buf_deinit(&files->out);
}

void files_process_deinit(FilesProcess *files)
{
    release(files);
}

/* Kills the process, and fails its questions. */
static void end(FilesProcess *files, const char *why)
{
    if (files->channel < 0)
        return;
    log_info("files process ended", "pid=%d reason=%s", (int)*files->pid, why);
    if (*files->pid > 0)
        kill(*files->pid, SIGKILL);
    *files->pid = 0;
    release(files);
    fail_all(files);
}

void files_process_reaped(FilesProcess *files, pid_t pid)
{
    if (pid != *files->pid)
        return;
    *files->pid = 0; /* the kernel may give it to another one */
    end(files, "it was killed or has crashed");
}

static void on_limit_due(LoopTimer *timer)
{
    end(container_of(timer, FilesProcess, limit), "it did not answer in time");
}

/* Returns whether an answer is due. Questions for events wait as long as they like. */
static bool owes_answer(const FilesProcess *files)
{
    for (size_t i = 0; i < ARRAY_SIZE(files->questions); i++)
        if (files->questions[i].id && files->questions[i].op != FILE_EVENTS)
            return true;
    return false;
}

static void watch_limit(FilesProcess *files)
{
    if (!owes_answer(files))
        loop_timer_cancel(&files->limit);
    else if (loop_timer_set(files->loop, &files->limit, clock_now() + ANSWER_LIMIT, on_limit_due) < 0)
        end(files, strerror(ENOMEM));
}

/* ---- what it says ---- */

static int take_reply(FilesProcess *files, const FileQuestion *question, const Message *message,
                      Problem *problem)
{
    FileReply reply;
    int r = file_reply_decode(&reply, question->op, &message->body, problem);

    if (r == 0 && question->told)
        link_write(files->link, MSG_REPLY, question->id, file_reply_schema(question->op), &reply);
    return r;
}

static int take_failure(FilesProcess *files, const FileQuestion *question, const Message *message,
                        Problem *problem)
{
    MsgFileFailed failed;
    int r = body_decode(&failed, MsgFileFailed, &message->body, problem);

    if (r == 0 && question->told)
        link_say(files->link, MSG_FILE_FAILED, question->id, MsgFileFailed, &failed);
    return r;
}

static int take_message(FilesProcess *files, const ChannelFrame *frame, Problem *problem)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    FileQuestion *question;
    int r = message_decode(&message, frame->data, frame->size, problem);

    if (r < 0)
        return r;
    question = message.id ? find_question(files, message.id) : NULL;
    if (!question)
        return problem_set(problem, ERR_BAD_REQUEST, "%s that answers nothing", message_name(message.kind));
    if (message.kind == MSG_REPLY)
        r = take_reply(files, question, &message, problem);
    else if (message.kind == MSG_FILE_FAILED)
        r = take_failure(files, question, &message, problem);
    else
        r = problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message.kind));
    if (r == 0)
        *question = (FileQuestion){0};
    return r;
}

static int take_messages(FilesProcess *files, Problem *problem)
{
    ChannelFrame frame;
    int r;

    while ((r = channel_next(&files->in, ANSWER_MAX, &frame)) > 0) {
        r = take_message(files, &frame, problem);
        if (r < 0)
            return r;
        buf_consume(&files->in, frame.used);
        watch_limit(files);
    }
    return r < 0 ? problem_set(problem, ERR_TOO_LARGE, "a message over %u MiB", ANSWER_MAX >> 20) : 0;
}

/* ---- the channel ---- */

static void send_out(FilesProcess *files)
{
    int r = files->out.size > 0 ? channel_send(files->channel, &files->out, NULL, 0) : 1;

    /* Reading tells when it is gone. */
    loop_file_change(&files->file, EPOLLIN | (r == 0 || r == -EAGAIN ? EPOLLOUT : 0));
}

static void on_ready(LoopFile *file, uint32_t events)
{
    FilesProcess *files = container_of(file, FilesProcess, file);
    Problem problem = PROBLEM_NULL;
    pid_t sender;
    ssize_t n;

    if (events & EPOLLOUT)
        send_out(files);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    n = channel_read(files->channel, &files->in, READ_SIZE, &sender, NULL);
    if (n > 0 && take_messages(files, &problem) < 0)
        end(files, problem.text);
    else if (n <= 0 && n != -EAGAIN)
        end(files, n < 0 ? strerror((int)-n) : "it closed its channel");
}

int files_process_listen(FilesProcess *files, int channel)
{
    files->channel = channel;
    fcntl(channel, F_SETFL, O_NONBLOCK);
    return loop_file_add(files->loop, &files->file, channel, EPOLLIN, on_ready);
}

/* Starts this very program once more, in another role. `channel` stays the caller's. */
static pid_t spawn_files(const CommandLine *command_line, int channel)
{
    char program[LIMIT_PATH];
    char *argv[] = {program, (char *)"files", NULL};
    char *environment[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL};
    const SpawnSpec spec = {.command_line = command_line,
                            .argv = argv,
                            .environment = environment,
                            .directory = command_line->directory,
                            .fds = {-1, -1, -1, [CHANNEL_FD] = channel},
                            .fd_count = CHANNEL_FD + 1};
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (n < 0)
        return -errno;
    program[n] = '\0';
    return spawn(&spec);
}

static int start(FilesProcess *files)
{
    int pair[2], r;
    pid_t pid;

    if (files->channel >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid = spawn_files(files->command_line, pair[1]);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return (int)pid;
    }
    *files->pid = pid;
    log_info("files process started", "pid=%d", (int)pid);
    r = files_process_listen(files, pair[0]);
    if (r < 0)
        end(files, strerror(-r));
    return r;
}

/* ---- what the controller asks ---- */

static size_t count_questions(const FilesProcess *files, bool events)
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(files->questions); i++)
        n += files->questions[i].id && (files->questions[i].op == FILE_EVENTS) == events;
    return n;
}

static int add_question(FilesProcess *files, uint64_t id, FileOp op, Problem *problem)
{
    size_t most = op == FILE_EVENTS ? LIMIT_WATCHES : LIMIT_FILE_REQUESTS;

    if (id == 0 || find_question(files, id))
        return problem_set(problem, ERR_BAD_REQUEST, "the id of this question is in use");
    if (count_questions(files, op == FILE_EVENTS) >= most)
        return problem_set(problem, ERR_BUSY, "too much is asked about files at once; wait for answers");
    *find_question(files, 0) = (FileQuestion){.id = id, .op = op, .told = true};
    return 0;
}

int files_process_ask(FilesProcess *files, const Message *message, Problem *problem)
{
    MsgFileAsk ask;
    int r = body_decode(&ask, MsgFileAsk, &message->body, problem);
    int op = r < 0 ? r : file_ask_op(&ask, problem);

    if (op < 0)
        return op;
    r = start(files);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the sandbox's process for files cannot be started: %s",
                           strerror(-r));
    r = add_question(files, message->id, (FileOp)op, problem);
    if (r < 0)
        return r;
    if (channel_say(&files->out, MSG_FILES, message->id, MsgFileAsk, &ask) < 0) {
        *find_question(files, message->id) = (FileQuestion){0};
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    }
    if (!loop_timer_is_set(&files->limit))
        watch_limit(files);
    send_out(files);
    return 0;
}
