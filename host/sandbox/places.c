/* Where a sandbox is on the host: its directories with their disk, and where its supervisor will connect. */
#include <stdio.h>
#include <string.h>

#include "host/sandbox/internal.h"

static bool is_another_users(const Sandbox *sandbox)
{
    return sandbox->user != sandbox->all->paths->user;
}

/* No name has an @. */
void sandbox_published_id(char ret[static PUBLISHED_ID_SIZE], const Sandbox *sandbox, const char *name)
{
    if (is_another_users(sandbox))
        snprintf(ret, PUBLISHED_ID_SIZE, "%u@%s", (unsigned)sandbox->user, name);
    else
        snprintf(ret, PUBLISHED_ID_SIZE, "%s", name);
}

int sandbox_claim_published(Sandbox *sandbox, const char *name, Problem *problem)
{
    char id[PUBLISHED_ID_SIZE];

    sandbox_published_id(id, sandbox, name);
    return sessiondir_claim(&sandbox->directory, id, is_another_users(sandbox) ? sandbox->user : NO_READER,
                            sandbox->all->worker, problem);
}

/* Another user gets to what is published, and not to where the rest is. */
static int make_apart(Sandbox *sandbox, const char *name, Problem *problem)
{
    char id[INSTANCE_SIZE + 1];
    int r;

    snprintf(id, sizeof(id), PRIVATE_MARK "%s", sandbox->instance);
    r = sessiondir_make_spare(&sandbox->directory, sandbox->all->paths->state_dir, id, sandbox->ephemeral,
                              sandbox->all->worker, problem);
    return r < 0 ? r : sandbox_claim_published(sandbox, name, problem);
}

/* What can be made at once. With what is published, or without. */
static int make_directories(Sandbox *sandbox, const char *id, Problem *problem)
{
    const char *state_dir = sandbox->all->paths->state_dir;
    Worker *worker = sandbox->all->worker;

    if (is_another_users(sandbox))
        return make_apart(sandbox, id, problem);
    return sandbox->state == SANDBOX_WARMING
               ? sessiondir_make_spare(&sandbox->directory, state_dir, id, sandbox->ephemeral, worker,
                                       problem)
               : sessiondir_make(&sandbox->directory, state_dir, id, sandbox->ephemeral, worker, problem);
}

static int fill(Sandbox *sandbox, Problem *problem)
{
    DiskSize disk = {sandbox->options.disk, sandbox->options.files};

    return sessiondir_fill(&sandbox->directory, sandbox->all->has_disks ? &disk : NULL, problem);
}

/* As much of them as the session may hold itself. */
static void bound_artifacts(Sandbox *sandbox)
{
    const SessionOptions *options = &sandbox->options;

    artifacts_set_room(sandbox->artifacts, options->disk, options->files);
    if (sandbox->work_artifacts)
        artifacts_set_room(sandbox->work_artifacts, options->disk, options->files);
}

int sandbox_watch_artifacts(Sandbox *sandbox, Problem *problem)
{
    const SessionDir *directory = &sandbox->directory;
    int r = artifacts_new(&sandbox->artifacts, directory->artifacts_root, "/session/artifacts",
                          directory->published_path);

    if (r == 0 && sandbox->ephemeral)
        r = artifacts_new(&sandbox->work_artifacts, directory->work_artifacts_root, "/work/artifacts",
                          directory->work_published_path);
    if (r == 0)
        bound_artifacts(sandbox);
    else
        problem_set(problem, ERR_INTERNAL, "cannot watch the artifacts of '%s': %s", sandbox->name,
                    strerror(-r));
    return r;
}

/* Of a spare they are watched once they are a session's. */
static int finish(Sandbox *sandbox, int r, Problem *problem)
{
    return r == 0 && sandbox->state != SANDBOX_WARMING ? sandbox_watch_artifacts(sandbox, problem) : r;
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
    if (sandbox_is_ending(sandbox))
        sandbox_end(sandbox);
    else
        places->made(sandbox,
                     finish(sandbox, places->result, &places->problem) < 0 ? &places->problem : NULL);
}

int sandbox_make_places(Sandbox *sandbox, const char *output_id,
                        void (*made)(Sandbox *sandbox, const Problem *failure), Problem *problem)
{
    Sandboxes *all = sandbox->all;
    const char *id = output_id ? output_id : sandbox->name;
    SandboxPlaces *places = &sandbox->places;
    int r = make_directories(sandbox, id, problem);

    if (r == 0)
        r = guest_new(&sandbox->guest, all, sandbox->directory.id, &sandbox_guest_events, sandbox, problem);
    if (r < 0)
        return r;
    if (!all->has_disks)
        return finish(sandbox, fill(sandbox, problem), problem);
    *places = (SandboxPlaces){.sandbox = sandbox, .made = made};
    r = worker_submit(all->makers, &places->job, fill_run, fill_done);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot start a thread that makes the disk of the session");
    places->making = true;
    return 0;
}
