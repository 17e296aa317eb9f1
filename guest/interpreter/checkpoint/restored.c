#include "guest/interpreter/checkpoint/restored.h"

#include "guest/interpreter/checkpoint/generators.h"
#include "guest/interpreter/checkpoint/sibling.h"
#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/volunteer.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/inbox.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/run.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/sink.h"

/* Python learns that it was forked, twice in fact, and runs what os.register_at_fork() was given. */
static void revive_python(const Copied *copied, bool branched)
{
    Generators generators _cleanup_(generators_deinit);
    int collecting = PyGC_Disable();

    generators_keep(&generators);
    if (collecting)
        PyGC_Enable();
    run_adopt();
    pthread_sigmask(SIG_SETMASK, &copied->mask, NULL);
    PyOS_AfterFork_Child();
    if (branched)
        generators_seed(&generators);
    else
        generators_restore(&generators);
}

static void revive_runtime(void)
{
    guard_begin_runtime();
    Py_XDECREF(PyObject_CallNoArgs(runtime.restored));
    PyErr_Clear();
}

int restored_begin(Copied *copied, const Restore *restore)
{
    setsid();
    inbox_clear();
    descriptors_attach(restore->fds);
    if (restore->fds[RESTORE_RINGS] >= 0)
        sinks_share(restore->fds[RESTORE_RINGS]);
    openfiles_restore(&copied->files, &copied->notes);
    descriptors_spare_keep();
    volunteer_live();
    int r = sibling_adopted(copied->supervisor);
    if (r < 0)
        return r;
    threads_note(&copied->notes);
    revive_python(copied, restore->branched);
    revive_runtime();
    return reply_ready(restore->id, &copied->notes);
}
