#include "guest/interpreter/checkpoint/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>

#include "guest/interpreter/checkpoint/children.h"
#include "guest/interpreter/checkpoint/frozen.h"
#include "guest/interpreter/checkpoint/rehearsal.h"
#include "guest/interpreter/checkpoint/restored.h"
#include "guest/interpreter/checkpoint/say.h"
#include "guest/interpreter/checkpoint/sibling.h"
#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/flusher.h"
#include "guest/interpreter/inbox.h"
#include "guest/interpreter/pyref.h"
#include "guest/interpreter/run.h"
#include "guest/interpreter/sink.h"
#include "guest/interpreter/volunteer.h"
#include "proto/base/clock.h"

/* For threads that are in the kernel, or wait for a processor. */
#define REST_LIMIT NSEC_PER_SEC

/* Of the newest checkpoint. A copy has it as it was when it was made. */
static Copied copied;

/* Why there is none. */
static char refusal[LIMIT_NOTE + 1];

void checkpoint_init(void)
{
    copied.supervisor = getppid();
    threads_init();
}

static void note_alarm(void)
{
    struct itimerval timer;

    if (getitimer(ITIMER_REAL, &timer) == 0 && (timer.it_value.tv_sec || timer.it_value.tv_usec))
        notes_add(&copied.notes, "the alarm that signal.alarm() or setitimer() set does not come");
}

/* What only this process can tell about itself, but for its open files. */
static void record(void)
{
    notes_clear(&copied.notes);
    openfiles_deinit(&copied.files);
    note_alarm();
    if (run.had_children)
        children_note(&copied.notes);
}

static void volunteer(void)
{
    volunteer_checkpoint(copied.automatic);
}

/* The copy has all signals blocked, and Python in it has not been told. */
static pid_t fork_alone(void)
{
    Run before = run;

    pid_t pid = sibling_fork(false, volunteer);
    run = before; /* it is no child of the cell */
    return pid;
}

/* Where there is no other thread: what libraries and cells have arranged for a fork is done. */
static pid_t copy_alone(int channel)
{
    pid_t pid = openfiles_record(&copied.files, channel, &copied.notes);

    return pid < 0 ? pid : fork_alone();
}

/* In the copy the threads rest, and the sinks are held. */
static pid_t copy_threads(int channel)
{
    sinks_hold();
    pid_t pid = threads_rest(REST_LIMIT, refusal, sizeof(refusal));
    bool rest = pid == 0;

    if (pid == 0)
        pid = openfiles_record(&copied.files, channel, &copied.notes);
    if (pid == 0 && (pid = sibling_fork(true, volunteer)) == 0)
        return 0;
    if (rest)
        threads_go_on();
    sinks_let_go();
    return pid;
}

/* Makes a copy: its process id, 0 in the copy, or a negative errno. Python is told of a fork only where there
 * is no other thread: it would give up those there are, of which a copy has all. */
static pid_t make_copy(int channel)
{
    sigset_t all;

    /* Here and not by a handler of the fork: if this process is killed meanwhile, that takes the thread for
     * one that has come to its end, and the copy has what it left on its stack. */
    flusher_stop();
    copied.with_threads = !threads_are_none();
    if (!copied.with_threads)
        PyOS_BeforeFork();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &copied.mask);
    pid_t pid = copied.with_threads ? copy_threads(channel) : copy_alone(channel);
    if (pid == 0)
        return 0;
    pthread_sigmask(SIG_SETMASK, &copied.mask, NULL);
    if (!copied.with_threads)
        PyOS_AfterFork_Parent();
    return pid;
}

/* Records, and makes a copy. */
static pid_t copy(int channel)
{
    descriptors_spare_free();
    record();
    inbox_reserve();
    pid_t pid = make_copy(channel);

    if (pid != 0)
        descriptors_spare_keep();
    return pid;
}

int checkpoint_take(uint64_t id, int channel, bool automatic)
{
    refusal[0] = '\0';
    copied.automatic = automatic;
    pid_t pid = channel < 0 ? -EMFILE : copy(channel);

    if (pid == 0) {
        Restore restore;

        frozen_serve(&copied, id, channel, &restore);
        return restored_begin(&copied, &restore);
    }
    close_fd(&channel);
    int r = say_checkpointed(id, MIN(pid, 0), refusal);
    if (pid > 0)
        rehearsal_run_if_quiet();
    return r;
}
