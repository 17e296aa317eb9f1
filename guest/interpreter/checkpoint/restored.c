#include "guest/interpreter/checkpoint/restored.h"

#include <errno.h>
#include <sys/prctl.h>

#include "guest/interpreter/checkpoint/generators.h"
#include "guest/interpreter/checkpoint/nativeids.h"
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

/* Without threads Python learns that it was forked, twice in fact, and runs what os.register_at_fork() was
 * given. */
static void revive_alone(bool branched)
{
    Generators generators _cleanup_(generators_deinit);
    int collecting = PyGC_Disable();

    generators_keep(&generators);
    if (collecting)
        PyGC_Enable();
    PyOS_AfterFork_Child();
    if (branched)
        generators_seed(&generators);
    else
        generators_restore(&generators);
}

/* With them it goes on. */
static void revive_with_threads(bool branched)
{
    Generators generators _cleanup_(generators_deinit);

    nativeids_renew();
    generators_keep(&generators);
    if (branched)
        generators_seed(&generators);
}

static int decode(const Restore *restore, MsgRestore *ret)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    int r = message_decode(&message, restore->bytes, restore->size, &problem);

    if (r < 0)
        return r;
    return body_decode(ret, MsgRestore, &message.body, &problem);
}

/* Until the threads go on nothing may allocate. */
static int take_place(Copied *copied, const Restore *restore)
{
    setsid();
    prctl(PR_SET_DUMPABLE, 1);
    inbox_clear();
    descriptors_attach(restore->fds);
    if (copied->with_threads)
        sinks_enter(restore->fds[RESTORE_RINGS]);
    else if (restore->fds[RESTORE_RINGS] >= 0)
        sinks_share(restore->fds[RESTORE_RINGS]);
    openfiles_restore(&copied->files, &copied->notes);
    descriptors_spare_keep();
    volunteer_live();
    int r = sharedmemory_enter(&copied->shared, &copied->notes);
    if (r == 0)
        r = sibling_adopted(copied->supervisor);
    if (r < 0)
        return r;
    run_adopt();
    if (copied->with_threads)
        threads_go_on();
    return 0;
}

int restored_begin(Copied *copied, const Restore *restore)
{
    _pyref_ PyObject *memory = NULL;
    MsgRestore said;
    int r = take_place(copied, restore);

    if (r == 0)
        r = decode(restore, &said);
    if (r < 0)
        return r;
    pthread_sigmask(SIG_SETMASK, &copied->mask, NULL);
    if (copied->with_threads)
        revive_with_threads(said.branched);
    else
        revive_alone(said.branched);
    guard_begin_runtime();
    if (said.memory)
        memory = PyObject_CallOneArg(runtime.holders, runtime.main_dict);
    PyErr_Clear();
    return reply_ready(restore->id, &copied->notes, memory);
}
