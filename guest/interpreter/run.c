#include "guest/interpreter/run.h"

#include "guest/interpreter/pyref.h"

Run run;

static uint64_t this_thread(void)
{
    return PyThreadState_GetID(PyThreadState_Get());
}

void run_note_child(void)
{
    run.spawned = run.had_children = true;
}

static void after_fork_child(void)
{
    run.forked = true;
}

int run_init(void)
{
    run.main_thread = this_thread();
    run.process = getpid();
    return -pthread_atfork(run_note_child, NULL, after_fork_child);
}

void run_adopt(void)
{
    run.process = getpid();
    run.forked = run.spawned = run.had_children = false;
}

void run_begin(uint64_t id, bool asks)
{
    run.id = id;
    run.number++;
    run.asks = asks;
    run.active = true;
    run.spawned = false;
}

void run_end(void)
{
    run.active = false;
}

bool run_admits(void)
{
    return run.forked || run.active || run.rests || (run.number > 0 && this_thread() != run.main_thread);
}

bool run_is_active(void)
{
    return run.active;
}
