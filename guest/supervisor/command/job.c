#include "guest/supervisor/command/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "guest/supervisor/command/spawn.h"
#include "guest/supervisor/command/terminal.h"
#include "proto/base/clock.h"

/* The job's own ends of its pipes, and the program's. */
typedef struct JobEnds {
    int own[3], program[3];
} JobEnds;

#define JOB_ENDS_NULL ((JobEnds){{-1, -1, -1}, {-1, -1, -1}})

static void ends_close(JobEnds *ends)
{
    for (int i = 0; i < 3; i++) {
        close_fd(&ends->own[i]);
        close_fd(&ends->program[i]);
    }
}

static int open_pipe(JobEnds *ends, int number)
{
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    ends->own[number] = pair[number == STDIN_FILENO];
    ends->program[number] = pair[number != STDIN_FILENO];
    return 0;
}

static int copy_fd(int *ret, int fd)
{
    *ret = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return *ret < 0 ? -errno : 0;
}

/* The one that is fed is the one that is read, and the program has it three times. */
static int open_terminal(JobEnds *ends, const JobPlan *plan)
{
    int r = terminal_open(plan->command_line, plan->terminal, &ends->own[STDOUT_FILENO],
                          &ends->program[STDIN_FILENO]);

    if (r == 0)
        r = copy_fd(&ends->own[STDIN_FILENO], ends->own[STDOUT_FILENO]);
    for (int i = STDOUT_FILENO; r == 0 && i <= STDERR_FILENO; i++)
        r = copy_fd(&ends->program[i], ends->program[STDIN_FILENO]);
    return r;
}

static int open_pipes(JobEnds *ends, bool input)
{
    int r = 0;

    if (input)
        r = open_pipe(ends, STDIN_FILENO);
    else if ((ends->program[STDIN_FILENO] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        r = -errno;
    for (int i = STDOUT_FILENO; r == 0 && i <= STDERR_FILENO; i++)
        r = open_pipe(ends, i);
    return r;
}

static int open_ends(JobEnds *ends, const JobPlan *plan)
{
    return plan->terminal ? open_terminal(ends, plan) : open_pipes(ends, plan->input);
}

/* ---- what it writes ---- */

static Job *job_of(Tap *tap)
{
    Job *job = container_of(tap, Job, taps[0]);

    return tap->number == 1 ? job : container_of(tap, Job, taps[1]);
}

static void on_data(Tap *tap, const uint8_t *bytes, size_t n)
{
    Job *job = job_of(tap);

    job->events->output(job, tap->number, bytes, n);
}

static void on_end(Tap *tap)
{
    Job *job = job_of(tap);

    job->events->closed(job);
}

void job_drain(Job *job)
{
    for (unsigned i = 0; i < JOB_STREAMS; i++)
        tap_drain(&job->taps[i]);
}

/* ---- its life ---- */

void job_init(Job *job, const JobEvents *events)
{
    *job = (Job){.events = events, .feed = FEED_NULL};
    for (unsigned i = 0; i < JOB_STREAMS; i++)
        job->taps[i] = (Tap){.fd = -1, .number = i + 1, .on_data = on_data, .on_end = on_end};
}

void job_close(Job *job)
{
    for (unsigned i = 0; i < JOB_STREAMS; i++)
        tap_close(&job->taps[i]);
    feed_close(&job->feed);
}

static int watch(Job *job, Loop *loop, JobEnds *ends)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < JOB_STREAMS; i++)
        if (ends->own[i + 1] >= 0)
            r = tap_open(&job->taps[i], loop, take_fd(&ends->own[i + 1]));
    if (r == 0 && ends->own[0] >= 0)
        r = feed_open(&job->feed, loop, take_fd(&ends->own[0]));
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

int job_begin(Job *job, Loop *loop, const JobPlan *plan, Problem *problem)
{
    _cleanup_(ends_close) JobEnds ends = JOB_ENDS_NULL;
    ProgramPlan program = {.command_line = plan->command_line,
                           .argv = plan->program->argv,
                           .environment = plan->program->environment.entries,
                           .directory = plan->program->directory,
                           .mark = plan->mark,
                           .terminal = plan->terminal};
    int r = open_ends(&ends, plan);
    pid_t pid;

    job->taps[0].terminal = plan->terminal;
    job->terminal = plan->terminal ? *plan->terminal : (MsgTerminal){NO_UINT, NO_UINT};
    if (r == 0)
        r = watch(job, loop, &ends);
    if (r < 0) {
        job_close(job);
        return refuse(-r, problem);
    }
    memcpy(program.fds, ends.program, sizeof(program.fds));
    job->began = clock_now();
    pid = spawn_program(&program);
    if (pid < 0) {
        job_close(job);
        return refuse((int)-pid, problem);
    }
    job->pid = job->group = pid;
    return 0;
}

static double seconds(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec * 1e-6;
}

bool job_reaped(Job *job, pid_t pid, int status, const struct rusage *usage)
{
    if (pid != job->pid)
        return false;
    job->pid = 0;
    job->over = clock_now();
    job->status = status;
    job->cpu = seconds(&usage->ru_utime) + seconds(&usage->ru_stime);
    job->peak_memory = (uint64_t)usage->ru_maxrss * 1024;
    job->events->ended(job);
    return true;
}

/* A process that has not made a group of its own yet is signalled alone. */
void job_signal(const Job *job, int number)
{
    if (kill(-job->group, number) < 0 && job->pid > 0)
        kill(job->pid, number);
}

int job_resize(Job *job, const MsgTerminal *size)
{
    int r;

    if (!job->taps[0].terminal)
        return -ENOTTY;
    r = job->taps[0].fd < 0 ? -EBADF : terminal_resize(job->taps[0].fd, size);
    if (r == 0)
        job->terminal = *size;
    return r;
}
