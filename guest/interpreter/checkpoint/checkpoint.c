#include "guest/interpreter/checkpoint/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <sys/time.h>

#include "guest/interpreter/checkpoint/children.h"
#include "guest/interpreter/checkpoint/frozen.h"
#include "guest/interpreter/checkpoint/openmp.h"
#include "guest/interpreter/checkpoint/rehearsal.h"
#include "guest/interpreter/checkpoint/restored.h"
#include "guest/interpreter/checkpoint/say.h"
#include "guest/interpreter/checkpoint/sibling.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/pyref.h"
#include "guest/interpreter/run.h"

/* Of the newest checkpoint. A copy has it as it was when it was made. */
static Copied copied;

void checkpoint_init(void)
{
    copied.supervisor = getppid();
}

static void note_alarm(void)
{
    struct itimerval timer;

    if (getitimer(ITIMER_REAL, &timer) == 0 && (timer.it_value.tv_sec || timer.it_value.tv_usec))
        notes_add(&copied.notes, "the alarm that signal.alarm() or setitimer() set does not come");
}

/* What only this process can tell about itself. */
static int record(int channel)
{
    notes_clear(&copied.notes);
    openfiles_deinit(&copied.files);
    note_alarm();
    if (run.had_children)
        children_note(&copied.notes);
    return openfiles_record(&copied.files, channel, &copied.notes);
}

/* The copy has all signals blocked, and Python in it has not been told. */
static pid_t make_copy(void)
{
    Run before = run;
    sigset_t all;

    PyOS_BeforeFork();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &copied.mask);
    pid_t pid = sibling_fork();
    run = before; /* it is no child of the cell */
    if (pid == 0)
        return 0;
    pthread_sigmask(SIG_SETMASK, &copied.mask, NULL);
    PyOS_AfterFork_Parent();
    return pid;
}

/* Records, and makes a copy: its process id, 0 in the copy, or a negative errno. */
static pid_t copy(int channel)
{
    descriptors_spare_free();
    pid_t pid = record(channel);

    if (pid == 0) {
        openmp_pause();
        pid = make_copy();
    }
    if (pid != 0)
        descriptors_spare_keep();
    return pid;
}

int checkpoint_take(uint64_t id, int channel, bool automatic)
{
    copied.automatic = automatic;
    pid_t pid = channel < 0 ? -EMFILE : copy(channel);

    if (pid == 0) {
        Restore restore;

        frozen_serve(&copied, id, channel, &restore);
        return restored_begin(&copied, &restore);
    }
    close_fd(&channel);
    int r = say_checkpointed(id, MIN(pid, 0));
    if (pid > 0)
        rehearsal_run_if_quiet();
    return r;
}
