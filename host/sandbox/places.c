/* Places of a sandbox on the host: its directories with their disk, and the one where its supervisor
 * connects. */
#include <stdio.h>

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

static int claim_published(Sandbox *sandbox, const char *name, const FilesRoom *room, Problem *problem)
{
    char id[PUBLISHED_ID_SIZE];

    sandbox_published_id(id, sandbox, name);
    return session_files_claim(&sandbox->files, id, is_another_users(sandbox) ? sandbox->user : NO_UINT, room,
                               problem);
}

int sandbox_claim_published(Sandbox *sandbox, const char *name, Problem *problem)
{
    const FilesRoom room = sandbox_room(&sandbox->options);

    return claim_published(sandbox, name, &room, problem);
}

/* Another user gets to what is published, and not to where the rest is. */
static int make_apart(Sandbox *sandbox, const char *name, Problem *problem)
{
    char id[INSTANCE_SIZE + 1];
    int r;

    snprintf(id, sizeof(id), PRIVATE_MARK "%s", sandbox->instance);
    r = session_files_make(&sandbox->files, sandbox->all->paths->state_dir, id, sandbox->ephemeral, false,
                           problem);
    return r < 0 ? r : claim_published(sandbox, name, NULL, problem);
}

/* Makes what can be made at once, with the published directory unless the sandbox is a spare. */
static int make_directories(Sandbox *sandbox, const char *id, Problem *problem)
{
    if (is_another_users(sandbox))
        return make_apart(sandbox, id, problem);
    return session_files_make(&sandbox->files, sandbox->all->paths->state_dir, id, sandbox->ephemeral,
                              sandbox->state != SANDBOX_WARMING, problem);
}

FilesRoom sandbox_room(const SessionOptions *options)
{
    return (FilesRoom){options->disk, options->files};
}

int sandbox_watch_artifacts(Sandbox *sandbox, Problem *problem)
{
    return session_files_watch(&sandbox->files, sandbox_room(&sandbox->options), problem);
}

/* Watches for artifacts, unless the sandbox is a spare: its files are watched once they are a session's. */
static int finish(Sandbox *sandbox, Problem *problem)
{
    return sandbox->state == SANDBOX_WARMING ? 0 : sandbox_watch_artifacts(sandbox, problem);
}

/* A step that took a moment is done. Whether there is more to do. */
static bool go_on(Sandbox *sandbox, const KeeperAnswer *answer)
{
    sandbox->places.making = false;
    if (sandbox_is_ending(sandbox))
        sandbox_end(sandbox);
    else if (answer->problem)
        sandbox->places.made(sandbox, answer->problem);
    else
        return true;
    return false;
}

static void finish_later(Sandbox *sandbox)
{
    Problem problem = PROBLEM_NULL;

    sandbox->places.made(sandbox, finish(sandbox, &problem) < 0 ? &problem : NULL);
}

static void on_template_put(void *userdata, KeeperAnswer *answer)
{
    if (go_on(userdata, answer))
        finish_later(userdata);
}

static int put_template(Sandbox *sandbox, Problem *problem)
{
    int r = session_files_put_template(&sandbox->files, sandbox->birth.template, on_template_put, sandbox,
                                       problem);

    sandbox->places.making = r == 0;
    return r;
}

static void on_filled(void *userdata, KeeperAnswer *answer)
{
    Sandbox *sandbox = userdata;
    Problem problem = PROBLEM_NULL;

    if (!go_on(sandbox, answer))
        return;
    if (!sandbox->birth.template)
        finish_later(sandbox);
    else if (put_template(sandbox, &problem) < 0)
        sandbox->places.made(sandbox, &problem);
}

/* At once, or on a disk or with the files of a template, which takes a moment. */
static int fill(Sandbox *sandbox, Problem *problem)
{
    int r;

    if (sandbox->all->has_disks) {
        r = session_files_fill_disk(&sandbox->files, sandbox_room(&sandbox->options), on_filled, sandbox,
                                    problem);
        sandbox->places.making = r == 0;
        return r;
    }
    r = session_files_fill(&sandbox->files, problem);
    if (r < 0)
        return r;
    return sandbox->birth.template ? put_template(sandbox, problem) : finish(sandbox, problem);
}

int sandbox_make_link(Sandbox *sandbox, Problem *problem)
{
    int r =
        guest_new(&sandbox->guest, sandbox->all, sandbox->files.id, &sandbox_guest_events, sandbox, problem);

    return r < 0 ? r : sandbox_serve_network(sandbox, sandbox->name, &sandbox->options, problem);
}

int sandbox_make_places(Sandbox *sandbox, const char *output_id,
                        void (*made)(Sandbox *sandbox, const Problem *failure), Problem *problem)
{
    const char *id = output_id ? output_id : sandbox->name;
    int r = make_directories(sandbox, id, problem);

    sandbox->places.made = made;
    if (r == 0)
        r = sandbox_make_link(sandbox, problem);
    return r < 0 ? r : fill(sandbox, problem);
}
