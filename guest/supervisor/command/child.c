#include "guest/supervisor/command/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/process/spawn.h"
#include "proto/base/clock.h"

/* The child's own ends of its pipes, and the program's. */
typedef struct ChildEnds {
    int own[3], program[3];
} ChildEnds;

#define CHILD_ENDS_NULL ((ChildEnds){{-1, -1, -1}, {-1, -1, -1}})

static void ends_close(ChildEnds *ends)
{
    for (int i = 0; i < 3; i++) {
        close_fd(&ends->own[i]);
        close_fd(&ends->program[i]);
    }
}

static int open_pipe(ChildEnds *ends, int number)
{
    int given = number != STDIN_FILENO, pair[2];
    int r = pipe_for_program(pair, given);

    if (r < 0)
        return r;
    ends->own[number] = pair[!given];
    ends->program[number] = pair[given];
    return 0;
}

static int copy_fd(int *ret, int fd)
{
    *ret = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return *ret < 0 ? -errno : 0;
}

/* `own` is the supervisor's end. The program is told by SIGWINCH. */
static int resize_terminal(int own, const MsgTerminal *size)
{
    struct winsize window = {.ws_row = (unsigned short)size->rows, .ws_col = (unsigned short)size->columns};

    return ioctl(own, TIOCSWINSZ, &window) < 0 ? -errno : 0;
}

static int open_as(const CommandLine *command_line)
{
    int fd, r = command_line->same_user ? 0 : act_as(command_line->uid);

    fd = r < 0 ? r : posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (r == 0 && fd < 0)
        fd = -errno;
    if (!command_line->same_user)
        act_as_self();
    return fd;
}

/* Opens both ends, as the user of the session: the terminal is theirs. 0 or a negative errno. */
static int open_pty(const CommandLine *command_line, const MsgTerminal *size, int *ret_own, int *ret_program)
{
    _cleanup_(closep) int own = open_as(command_line);
    int locked = 0, program, r;

    if (own < 0)
        return own;
    r = resize_terminal(own, size);
    if (r < 0)
        return r;
    if (ioctl(own, TIOCSPTLCK, &locked) < 0)
        return -errno;
    program = ioctl(own, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (program < 0)
        return -errno;
    *ret_own = take_fd(&own);
    *ret_program = program;
    return 0;
}

/* The one that is fed is the one that is read, and the program has it three times. */
static int open_terminal(ChildEnds *ends, const ChildPlan *plan)
{
    int r =
        open_pty(plan->command_line, plan->terminal, &ends->own[STDOUT_FILENO], &ends->program[STDIN_FILENO]);

    if (r == 0)
        r = copy_fd(&ends->own[STDIN_FILENO], ends->own[STDOUT_FILENO]);
    for (int i = STDOUT_FILENO; r == 0 && i <= STDERR_FILENO; i++)
        r = copy_fd(&ends->program[i], ends->program[STDIN_FILENO]);
    return r;
}

static int open_pipes(ChildEnds *ends, bool input)
{
    int r = input ? open_pipe(ends, STDIN_FILENO) : 0;

    for (int i = STDOUT_FILENO; r == 0 && i <= STDERR_FILENO; i++)
        r = open_pipe(ends, i);
    return r;
}

static int open_ends(ChildEnds *ends, const ChildPlan *plan)
{
    return plan->terminal ? open_terminal(ends, plan) : open_pipes(ends, plan->input);
}

/* ---- what it writes ---- */

static ChildProcess *child_of(PipeReader *reader)
{
    ChildProcess *child = container_of(reader, ChildProcess, readers[0]);

    return reader->number == 1 ? child : container_of(reader, ChildProcess, readers[1]);
}

static void on_data(PipeReader *reader, const uint8_t *bytes, size_t n)
{
    ChildProcess *child = child_of(reader);

    child->events->output(child, reader->number, bytes, n);
}

static void on_end(PipeReader *reader)
{
    ChildProcess *child = child_of(reader);

    child->events->closed(child);
}

void child_drain(ChildProcess *child)
{
    for (unsigned i = 0; i < CHILD_STREAMS; i++)
        pipe_reader_drain(&child->readers[i]);
}

/* ---- its life ---- */

void child_init(ChildProcess *child, const ChildEvents *events)
{
    *child = (ChildProcess){.events = events, .writer = PIPE_WRITER_NULL};
    for (unsigned i = 0; i < CHILD_STREAMS; i++)
        child->readers[i] = (PipeReader){.fd = -1, .number = i + 1, .on_data = on_data, .on_end = on_end};
}

void child_close(ChildProcess *child)
{
    for (unsigned i = 0; i < CHILD_STREAMS; i++)
        pipe_reader_close(&child->readers[i]);
    pipe_writer_close(&child->writer);
}

static int watch(ChildProcess *child, Loop *loop, ChildEnds *ends)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < CHILD_STREAMS; i++)
        if (ends->own[i + 1] >= 0)
            r = pipe_reader_open(&child->readers[i], loop, take_fd(&ends->own[i + 1]));
    if (r == 0 && ends->own[0] >= 0)
        r = pipe_writer_open(&child->writer, loop, take_fd(&ends->own[0]));
    return r;
}

static int refuse(int error, Problem *problem)
{
    if (error == EAGAIN)
        return problem_set(problem, ERR_BUSY,
                           "no process can be made: the session has as many as its option `pids` allows; "
                           "end some of them first");
    return problem_set(problem, ERR_INTERNAL, "no process can be made: %s", strerror(error));
}

int child_begin(ChildProcess *child, Loop *loop, const ChildPlan *plan, Problem *problem)
{
    _cleanup_(ends_close) ChildEnds ends = CHILD_ENDS_NULL;
    SpawnSpec spec = {.command_line = plan->command_line,
                      .argv = plan->program->argv,
                      .environment = plan->program->environment.entries,
                      .directory = plan->program->directory,
                      .mark = plan->mark,
                      .fd_count = 3,
                      .terminal = plan->terminal,
                      .is_command = true};
    int r = open_ends(&ends, plan);
    pid_t pid;

    child->readers[0].terminal = plan->terminal;
    child->terminal = plan->terminal ? *plan->terminal : (MsgTerminal){NO_UINT, NO_UINT};
    if (r == 0)
        r = watch(child, loop, &ends);
    if (r < 0) {
        child_close(child);
        return refuse(-r, problem);
    }
    memcpy(spec.fds, ends.program, sizeof(ends.program));
    child->began = clock_now();
    pid = spawn(&spec);
    if (pid < 0) {
        child_close(child);
        return refuse((int)-pid, problem);
    }
    child->pid = child->group = pid;
    return 0;
}

static double seconds(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec * 1e-6;
}

bool child_reaped(ChildProcess *child, pid_t pid, int status, const struct rusage *usage)
{
    if (pid != child->pid)
        return false;
    child->pid = 0;
    child->over = clock_now();
    child->status = status;
    child->cpu = seconds(&usage->ru_utime) + seconds(&usage->ru_stime);
    child->peak_memory = (uint64_t)usage->ru_maxrss * 1024;
    child->events->ended(child);
    return true;
}

/* A process that has not made a group of its own yet is signalled alone. */
void child_signal(const ChildProcess *child, int number)
{
    if (kill(-child->group, number) < 0 && child->pid > 0)
        kill(child->pid, number);
}

int child_resize(ChildProcess *child, const MsgTerminal *size)
{
    int r;

    if (!child->readers[0].terminal)
        return -ENOTTY;
    r = child->readers[0].fd < 0 ? -EBADF : resize_terminal(child->readers[0].fd, size);
    if (r == 0)
        child->terminal = *size;
    return r;
}

/* ---- what is to be run ---- */

#define SHELL "bash"

static int out_of_memory(Problem *problem)
{
    return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
}

/* ---- arguments ---- */

static Text argument_of(const msgpack_object *value)
{
    if (value->type == MSGPACK_OBJECT_STR)
        return (Text){value->via.str.ptr, value->via.str.size};
    if (value->type == MSGPACK_OBJECT_BIN)
        return (Text){value->via.bin.ptr, value->via.bin.size};
    return (Text){0};
}

static int check_argv(const msgpack_object_array *argv, Problem *problem)
{
    size_t total = 0;

    if (argv->size == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "`argv` names no program");
    if (argv->size > LIMIT_ARGV)
        return problem_set(problem, ERR_TOO_LARGE, "`argv` has more than %u items", LIMIT_ARGV);
    for (uint32_t i = 0; i < argv->size; i++) {
        Text text = argument_of(&argv->ptr[i]);

        if (!text.data || memchr(text.data, '\0', text.size))
            return problem_set(problem, ERR_BAD_REQUEST, "`argv` holds texts or bytes, without NUL");
        total += text.size;
        if (total > LIMIT_ARGV_BYTES || text.size > LIMIT_COMMAND)
            return problem_set(
                problem, ERR_TOO_LARGE,
                "an item of `argv` has at most %u bytes, all together %u; put more into a file",
                LIMIT_COMMAND, LIMIT_ARGV_BYTES);
    }
    return 0;
}

static char *copy(Text text)
{
    return strndup(text.data ? text.data : "", text.size);
}

static int set_argv(CommandSpec *program, const msgpack_object_array *argv, Problem *problem)
{
    int r = check_argv(argv, problem);

    if (r < 0)
        return r;
    program->argv = calloc(argv->size + 1, sizeof(char *));
    for (uint32_t i = 0; program->argv && i < argv->size; i++)
        if (!(program->argv[i] = copy(argument_of(&argv->ptr[i]))))
            return out_of_memory(problem);
    return program->argv ? 0 : out_of_memory(problem);
}

static int set_line(CommandSpec *program, Text line, Problem *problem)
{
    if (memchr(line.data, '\0', line.size))
        return problem_set(problem, ERR_BAD_REQUEST, "`command` holds a NUL, which no command line can");
    program->argv = calloc(4, sizeof(char *));
    if (!program->argv || !(program->argv[0] = strdup(SHELL)) || !(program->argv[1] = strdup("-c")) ||
        !(program->argv[2] = copy(line)))
        return out_of_memory(problem);
    return 0;
}

/* ---- its directory ---- */

static bool is_below_session(Text path)
{
    size_t n = strlen(SESSION_PATH);

    return path.size >= n && memcmp(path.data, SESSION_PATH, n) == 0 &&
           (path.size == n || path.data[n] == '/');
}

static int set_directory(CommandSpec *program, Text said, const CommandLine *command_line, Problem *problem)
{
    const char *slash = "";

    if (said.data && memchr(said.data, '\0', said.size))
        return problem_set(problem, ERR_BAD_REQUEST, "`cwd` holds a NUL, which no path can");
    if (!said.data)
        program->directory = strdup(command_line->directory);
    else if (said.size > 0 && said.data[0] == '/' && !is_below_session(said))
        program->directory = copy(said);
    else {
        if (is_below_session(said))
            said = (Text){said.data + strlen(SESSION_PATH), said.size - strlen(SESSION_PATH)};
        else
            slash = "/";
        if (asprintf(&program->directory, "%s%s%.*s", command_line->directory, slash, (int)said.size,
                     said.data) < 0)
            program->directory = NULL;
    }
    return program->directory ? 0 : out_of_memory(problem);
}

/* ---- the specification ---- */

int command_spec_init(CommandSpec *ret, const MsgProgram *said, const CommandLine *command_line,
                      const Environment *environment, Problem *problem)
{
    _cleanup_(command_spec_deinit) CommandSpec program = {0};
    int r;

    if ((said->command.data != NULL) == (said->argv.array != NULL))
        return problem_set(problem, ERR_BAD_REQUEST, "give either `command` or `argv`");
    r = said->command.data ? set_line(&program, said->command, problem)
                           : set_argv(&program, said->argv.array, problem);
    if (r == 0)
        r = set_directory(&program, said->cwd, command_line, problem);
    if (r == 0)
        r = environment_extend(&program.environment, environment, said->env.map, problem);
    if (r < 0)
        return r == -ENOMEM ? out_of_memory(problem) : r;
    *ret = program;
    program = (CommandSpec){0};
    return 0;
}

/* A line for a shell is the last argument. */
static char **first_told(const CommandSpec *program)
{
    bool line = strcmp(program->argv[0], SHELL) == 0 && program->argv[1] &&
                strcmp(program->argv[1], "-c") == 0 && program->argv[2];

    return program->argv + (line ? 2 : 0);
}

void command_spec_describe(const CommandSpec *program, char *ret, size_t size)
{
    Buf text _cleanup_(buf_deinit) = BUF_NULL;
    size_t n;

    for (char **argument = first_told(program); *argument && text.size < size; argument++)
        if ((text.size > 0 && buf_append(&text, " ", 1) < 0) ||
            utf8_append_replaced(&text, *argument, strnlen(*argument, size)) < 0)
            break;
    n = MIN(text.size, size - 1);
    while (n > 0 && n < text.size && (buf_head(&text)[n] & 0xc0) == 0x80)
        n--; /* no character is cut in two */
    if (n > 0)
        memcpy(ret, buf_head(&text), n);
    ret[n] = '\0';
}

void command_spec_deinit(CommandSpec *program)
{
    for (char **argument = program->argv; argument && *argument; argument++)
        free(*argument);
    free(program->argv);
    free(program->directory);
    environment_deinit(&program->environment);
}
