/* Where a sandbox is on the host: its directories with their disk, and where its supervisor will connect. */
#include <stdio.h>

#include "host/sandbox_parts.h"

/* What can be made at once. With what is published, or without. */
static int make_directories(Sandbox *sandbox, const char *id, Problem *problem)
{
    const char *state_dir = sandbox->controller->paths->state_dir;
    Worker *worker = sandbox->controller->worker;

    return sandbox->spare
               ? sessiondir_make_spare(&sandbox->directory, state_dir, id, sandbox->ephemeral, worker,
                                       problem)
               : sessiondir_make(&sandbox->directory, state_dir, id, sandbox->ephemeral, worker, problem);
}

static int fill(Sandbox *sandbox, Problem *problem)
{
    DiskSize disk = {sandbox->options.disk, sandbox->options.files};

    return sessiondir_fill(&sandbox->directory, sandbox->controller->has_disks ? &disk : NULL, problem);
}

static int finish(Sandbox *sandbox, int r, Problem *problem)
{
    return r == 0 && !sandbox->spare ? sandbox_watch_artifacts(sandbox, problem) : r;
}

static void fill_run(WorkerJob *job)
{
    SandboxPlaces *places = container_of(job, SandboxPlaces, job);

    places->result = fill(places->sandbox, &places->problem);
}

static void fill_done(WorkerJob *job)
{
    SandboxPlaces *places = container_of(job, SandboxPlaces, job);
    Sandbox *sandbox = places->sandbox;

    places->making = false;
    if (sandbox->state != SANDBOX_STARTING)
        sandbox_end(sandbox);
    else
        places->made(sandbox,
                     finish(sandbox, places->result, &places->problem) < 0 ? &places->problem : NULL);
}

int sandbox_make_places(Sandbox *sandbox, const char *output_id,
                        void (*made)(Sandbox *sandbox, const Problem *failure), Problem *problem)
{
    Controller *controller = sandbox->controller;
    const char *id = output_id ? output_id : sandbox->trunk->name;
    SandboxPlaces *places = &sandbox->places;
    int r = make_directories(sandbox, id, problem);

    if (r == 0)
        r = guest_new(&sandbox->guest, controller, id, &sandbox_guest_events, sandbox, problem);
    if (r < 0)
        return r;
    if (!controller->has_disks)
        return finish(sandbox, fill(sandbox, problem), problem);
    *places = (SandboxPlaces){.sandbox = sandbox, .made = made};
    r = worker_submit(controller->makers, &places->job, fill_run, fill_done);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "no thread can make the disk of the session");
    places->making = true;
    return 0;
}
